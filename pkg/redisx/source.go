package redisx

import "fmt"

// Command is one script call spelled out, for whoever sends the very same
// call without this package: a benchmark, or somebody with redis-cli.
type Command struct {
	Source, SHA string
	Keys, Args  []string
}

// ReserveCommand is what Batch.Reserve would send.
func (s *Store) ReserveCommand(a ReserveArgs) Command {
	script, keys, args := (&reserveCall{store: s, args: a}).command()
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = fmt.Sprint(arg)
	}
	return Command{Source: script.source, SHA: script.sha, Keys: keys, Args: texts}
}
