package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tallystick/pkg/events"
)

func (e *environment) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the surroundings (not there yet)",
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return notYet("doctor") },
	}
}

type buildFacts struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// facts are what the toolchain recorded in the binary; nothing is stamped by
// hand, so nothing can be forgotten.
func facts() buildFacts {
	f := buildFacts{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return f
	}
	if v := info.Main.Version; v != "" {
		f.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			f.Commit = s.Value
		case "vcs.time":
			f.Date = s.Value
		case "vcs.modified":
			f.Modified = s.Value == "true"
		}
	}
	return f
}

func (e *environment) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print build facts", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f := facts()
			if e.json() {
				return e.document(f)
			}
			commit := f.Commit
			if commit == "" {
				commit = "unknown commit"
			}
			_, err := fmt.Fprintf(e.out, "tallystick %s (%.12s, %s, %s/%s)\n", f.Version, commit, f.Go, f.OS, f.Arch)
			return err
		},
	}
}

func (e *environment) errorsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "errors [CODE]", Short: "Explain error codes and denial reasons",
		Example: "  tallystick errors budget_exceeded",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return e.showCatalogue(events.Catalogue())
			}
			entry, ok := events.Lookup(args[0])
			if !ok {
				return &exitError{events.ExitNotFound, fmt.Sprintf("no code %q; `tallystick errors` lists all", args[0])}
			}
			if e.json() {
				return e.document(entry)
			}
			t := newTable(e.out)
			t.row("code", entry.Code)
			t.row("kind", kindOf(entry))
			t.row("when", entry.When)
			t.row("hint", entry.Hint)
			t.row("retry", retryOf(entry))
			t.row("exit code", entry.Exit)
			return t.flush()
		},
	}
}

func (e *environment) showCatalogue(all []events.CatalogueEntry) error {
	if e.json() {
		return e.document(map[string]any{"errors": all})
	}
	t := newTable(e.out, "CODE", "KIND", "RETRY", "EXIT", "WHEN")
	for _, c := range all {
		t.row(c.Code, kindOf(c), retryOf(c), c.Exit, c.When)
	}
	return t.flush()
}

func kindOf(c events.CatalogueEntry) string {
	if c.Denial {
		return "denial"
	}
	return "error"
}

func retryOf(c events.CatalogueEntry) string {
	if c.Retryable {
		return "same key"
	}
	return "no"
}
