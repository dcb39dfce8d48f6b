// Package cli is the command line of Tallystick. Every command prints either a
// short table for people or, with -o json, exactly one document: the
// contract's answer. Data goes to stdout, everything else to stderr.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tallystick/internal/app"
	"tallystick/pkg/events"
)

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr *os.File) int {
	app.QuietRedis()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal finds the default handler and ends the process at once.
	context.AfterFunc(ctx, stop)
	return Run(ctx, args, os.Getenv, stdout, stderr)
}

// Run is Main with its surroundings given.
func Run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	e := &environment{env: env, out: stdout, err: stderr}
	if i := slices.IndexFunc(args, func(a string) bool { return !utf8.ValidString(a) }); i >= 0 {
		// encoding/json would repair it: a name nobody gave.
		e.explain(usagef("argument %d is not UTF-8: %q", i+1, args[i]))
		return events.ExitUsage
	}
	root := e.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return events.ExitOK
	}
	var said *exitError
	if !errors.As(err, &said) || said.msg != "" {
		e.explain(err)
	}
	if e.running {
		return exitCode(err)
	}
	// cobra refused the command line before a command ran.
	return events.ExitUsage
}

// environment is what all commands share.
type environment struct {
	env      func(string) string
	out, err io.Writer

	output    string
	url       string
	token     string
	tokenFile string
	data      string
	reason    string
	timeout   time.Duration
	noColor   bool
	running   bool // a command's own code has started
}

func (e *environment) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tallystick",
		Short: "A budget authority for AI agents: reserve before spending, settle what was spent",
		Long: `Tallystick keeps AI agents within their budgets. An agent reserves before it
spends and settles what it really spent; counters in Redis decide, a ledger in
NATS JetStream explains every unit.`,
		Example: `  tallystick demo                                    # the story in under a minute
  tallystick up --data ./data                        # the whole system in one process
  export TALLY_DATA=./data                           # be its operator
  tallystick org create acme
  tallystick pool create research --org acme --unit usd_microcents --cap 500000000
  tallystick agent register --org acme --name bot --pool research
  TALLY_TOKEN=tly_… tallystick reserve --key job-1 --amount usd_microcents=2500000`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if e.output != "table" && e.output != "json" {
				return usagef("-o %q: want table or json", e.output)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVarP(&e.output, "output", "o", "table", "table or json")
	f.StringVar(&e.url, "url", "", "NATS server `URL` (TALLY_URL); default: from --data")
	f.StringVar(&e.token, "token", "", "`TOKEN` of an agent, admin or operator; better TALLY_TOKEN or --token-file")
	f.StringVar(&e.tokenFile, "token-file", "", "`FILE` that holds the token, - for stdin")
	f.StringVar(&e.data, "data", "", "`DIR` of a running `tallystick up` (TALLY_DATA)")
	f.StringVar(&e.reason, "reason", "", "why, for the ledger: `TEXT` of at most 256 bytes, on what operators and admins do")
	f.DurationVar(&e.timeout, "timeout", 30*time.Second, "how long a command may take")
	f.BoolVar(&e.noColor, "no-color", false, "no colours (also NO_COLOR)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v\nSee `%s --help`.", err, cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "system", Title: "The system:"},
		&cobra.Group{ID: "operator", Title: "As operator:"},
		&cobra.Group{ID: "agent", Title: "As agent:"},
		&cobra.Group{ID: "audit", Title: "Audit:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("system", e.upCommand(), e.demoCommand(), e.benchCommand(), e.credentialsCommand(), e.setupCommand(), e.doctorCommand(), e.versionCommand(), e.errorsCommand())
	add("operator", e.orgCommand(), e.adminCommand(), e.poolCommand(), e.agentCommand(), e.principalCommand(), e.pipelineCommand())
	add("agent", e.reserveCommand(), e.settleCommand(), e.releaseCommand(), e.extendCommand(), e.chargeCommand(), e.balanceCommand(), e.reservationCommand(), e.whoamiCommand())
	add("audit", e.ledgerCommand(), e.reportCommand(), e.reconcileCommand(), e.rebuildCommand())
	e.watch(root)
	return root
}

// watch notes when a command's own code starts: every error before that is a
// mistake on the command line.
func (e *environment) watch(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			e.running = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		e.watch(sub)
	}
}

// group makes a command that only holds others: without a subcommand it shows
// its help, and an unknown one is a usage error with a suggestion.
func group(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
			cmd.SuggestionsMinimumDistance = 2
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				msg += fmt.Sprintf("\nDid you mean `%s %s`?", cmd.CommandPath(), near[0])
			}
			return usagef("%s", msg)
		},
	}
	c.AddCommand(subs...)
	return c
}

func (e *environment) json() bool { return e.output == "json" }

// note says something to the person at the terminal.
func (e *environment) note(format string, args ...any) {
	fmt.Fprintf(e.err, format+"\n", args...)
}

// explain says what went wrong and what to do about it.
// With -o json an error answer is the document on stdout as well.
func (e *environment) explain(err error) {
	var coded *events.Error
	isCoded := errors.As(err, &coded)
	if isCoded && e.json() {
		fmt.Fprintf(e.out, "%s\n", coded.Append(nil))
	}
	e.note("tallystick: %s", printableText(err.Error()))
	if isCoded && coded.Hint != "" {
		e.note("hint: %s", coded.Hint)
	}
}

// raw prints a contract answer as the one JSON document of this command.
func (e *environment) raw(body []byte) error {
	_, err := e.out.Write(append(bytes.TrimRight(body, "\n"), '\n'))
	return err
}

// notYet is a command or flag of the contract that this release lacks.
func notYet(what string) error {
	return usagef("%s is not there yet", what)
}
