// Command pipeline shows an asynchronous pipeline in three processes:
//
//	submit   an agent: stores reserve commands with labels and goes on
//	work     a pipeline identity: reads the decisions, does the work, passes the result on
//	settle   another agent, named as settler on each reserve: settles what was done
//
// They share nothing but Tallystick and a folder of results, which stands for
// whatever queue a real pipeline has between two stages. Without a stage's name
// it plays all of them on a running `tallystick up`, or on a throw-away one,
// kills the middle stage while it works, starts it again, and checks that every
// job is settled exactly once:
//
//	go run ./examples/pipeline --data DIR
//	go run ./examples/pipeline --tallystick bin/tallystick
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	stages := map[string]func(context.Context, stage) error{"submit": submit, "work": work, "settle": settle}
	if len(args) > 0 && stages[args[0]] != nil {
		return stages[args[0]](ctx, stage{
			url: os.Getenv("TALLY_URL"), token: os.Getenv("TALLY_TOKEN"), settler: os.Getenv("SETTLER"), results: os.Getenv("RESULTS"),
		})
	}
	f := flag.NewFlagSet("pipeline", flag.ContinueOnError)
	data := f.String("data", "", "`DIR` of a running `tallystick up`")
	binary := f.String("tallystick", "", "`PATH` of the tallystick binary, to start one on a throw-away directory")
	if err := f.Parse(args); err != nil {
		return err
	}
	if (*data == "") == (*binary == "") {
		return errors.New("give --data DIR of a running system, or --tallystick PATH to start one")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if *binary == "" {
		return play(ctx, *data)
	}
	return throwAway(ctx, *binary, play)
}
