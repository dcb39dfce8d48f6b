package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/bench"
)

func (e *environment) benchCommand() *cobra.Command {
	cfg := bench.Config{}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Load and latency, beside the raw limit measured in the same run",
		Long: `Without --clients or --door: the full table, in about three minutes on two
cores, on servers of its own in a throw-away directory. With one of them: that
load alone, beside raw Redis. A timing is printed and never fails anything.`,
		Example: "  tallystick bench\n  tallystick bench --clients 64 --duration 5s --door durable\n  tallystick bench --only doors -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return e.bench(cmd, cfg) },
	}
	f := c.Flags()
	f.IntVar(&cfg.Clients, "clients", 0, "this many clients (default 64 with --door)")
	f.StringVar(&cfg.Door, "door", "", "direct or durable (default direct with --clients)")
	f.DurationVar(&cfg.Window, "duration", bench.WindowDefault, "of one measurement")
	f.IntVar(&cfg.Windows, "windows", bench.WindowsDefault, "measurements of each row; the median is printed")
	f.StringSliceVar(&cfg.Sections, "only", nil, "sections of the table: "+strings.Join(bench.Sections(), ", "))
	f.IntVar(&cfg.Outstanding, "outstanding", bench.OutstandingDefault, "reservations of the section scale")
	f.IntVar(&cfg.Tree, "tree", bench.TreeDefault, "agents of the tree that is registered and revoked")
	f.IntVar(&cfg.Drain, "drain", bench.DrainDefault, "entries for the scribe to carry, at least")
	f.IntVar(&cfg.Ledger, "ledger", bench.LedgerDefault, "entries on the ledger of the section audit")
	f.IntVar(&cfg.Live, "live", bench.LiveDefault, "reservations of the rebuild of the section audit")
	f.StringVar(&cfg.Dir, "dir", "", "`DIR` for the servers' data (default: the system's for temporary files)")
	c.AddCommand(&cobra.Command{
		Use: "load", Short: "The load generator: reads what to do from stdin", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Load(cmd.Context(), cmd.InOrStdin(), e.out)
		},
	})
	return c
}

func (e *environment) bench(cmd *cobra.Command, cfg bench.Config) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if cfg.Dir, err = os.MkdirTemp(cfg.Dir, "tallystick-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	cfg.Load, cfg.Progress = []string{self, "bench", "load"}, e.err
	if err := cfg.Validate(); err != nil {
		return usagef("%v", err)
	}
	report, err := bench.Run(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if e.json() {
		return e.document(report)
	}
	return report.Write(e.out)
}
