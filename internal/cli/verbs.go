package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

func (e *environment) reserveCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use:     "reserve --key KEY --amount UNIT=N...",
		Short:   "Reserve before spending; exit 4 when denied",
		Example: "  tallystick reserve --key job-1 --amount usd_microcents=2500000 --amount tokens=4000 --ttl 60s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			if len(s.amount) == 0 {
				return usagef("reserve wants at least one --amount UNIT=N")
			}
			if s.dryRun {
				body["dry_run"] = true
			}
			return e.send(cmd, request{verb: events.VerbReserve, key: s.key, body: body, door: s.door, keyless: s.dryRun})
		},
	}
	f := c.Flags()
	f.StringVar(&s.key, "key", "", "idempotency `KEY`: repeat it on every retry")
	f.StringVar(&s.door, "door", "direct", "direct, or durable: stored first, survives a restart")
	f.StringArrayVar(&s.amount, "amount", nil, "`UNIT=N`, once per unit")
	f.StringArrayVar(&s.ceiling, "ceiling", nil, "`UNIT=N`: a cap that comes with the request and only tightens")
	f.StringVar(&s.ttl, "ttl", "", "how long the money may stay held, such as 60s; default 10m")
	f.StringVar(&s.pool, "pool", "", "`POOL`; default: the agent's own")
	f.StringVar(&s.target, "target", "", "`TARGET` that takes a concurrency slot, such as openai/gpt-5")
	f.StringVar(&s.settler, "settler", "", "another `AGENT` that may settle")
	f.StringVar(&s.purpose, "purpose", "", "free text for the ledger")
	f.StringVar(&s.onBehalfOf, "on-behalf-of", "", "`PRINCIPAL` whose work it is; the agent must be its manager")
	f.StringArrayVar(&s.label, "label", nil, "`NAME=VALUE`, once per label")
	f.BoolVar(&s.dryRun, "dry-run", false, "only ask: nothing is taken, nothing stored")
	return c
}

func (e *environment) settleCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use:   "settle --key KEY (--reservation ID | --reserve-key KEY) [--actual UNIT=N...]",
		Short: "Book what was really spent; exit 4 when the overrun is refused",
		Example: `  tallystick settle --key job-1 --reserve-key job-1 --actual usd_microcents=1800000
  tallystick settle --key fix-1 --reservation 8f2c… --actual usd_microcents=0 --org acme --agent 0199…   # as operator`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := s.which(body, args, false); err != nil {
				return err
			}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			if set(cmd, "dispatched") {
				body["dispatched"] = s.dispatched
			}
			if set(cmd, "final") {
				body["final"] = s.final
			}
			return e.send(cmd, request{verb: events.VerbSettle, key: s.key, body: body, door: s.door, org: s.org, agent: s.agent})
		},
	}
	s.keyed(c)
	s.named(c)
	s.onBehalf(c)
	f := c.Flags()
	f.StringArrayVar(&s.actual, "actual", nil, "`UNIT=N` really spent; may be 0; absent: unknown, charged in full")
	f.StringVar(&s.status, "status", "", "success, failure or unknown")
	f.BoolVar(&s.dispatched, "dispatched", true, "whether the paid call went out; false with --status failure returns all")
	f.BoolVar(&s.final, "final", true, "whether actual is the last word")
	return c
}

func (e *environment) releaseCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use:   "release --key KEY (--reservation ID | --reserve-key KEY)",
		Short: "Give back what was not spent",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := s.which(body, args, false); err != nil {
				return err
			}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			return e.send(cmd, request{verb: events.VerbRelease, key: s.key, body: body, door: s.door, org: s.org, agent: s.agent})
		},
	}
	s.keyed(c)
	s.named(c)
	s.onBehalf(c)
	c.Flags().StringVar(&s.reason, "reason", "", "free text for the ledger")
	return c
}

func (e *environment) extendCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use:   "extend --key KEY (--reservation ID | --reserve-key KEY) [--ttl D] [--add UNIT=N...]",
		Short: "Keep a reservation longer, or add to it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := s.which(body, args, false); err != nil {
				return err
			}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			return e.send(cmd, request{verb: events.VerbExtend, key: s.key, body: body, door: s.door})
		},
	}
	s.keyed(c)
	s.named(c)
	c.Flags().StringVar(&s.ttl, "ttl", "", "from now on, such as 60s; the deadline never comes earlier")
	c.Flags().StringArrayVar(&s.add, "add", nil, "`UNIT=N` on top")
	return c
}

func (e *environment) chargeCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use:     "charge --key KEY --actual UNIT=N...",
		Short:   "Book a cost in one step, without a reservation",
		Example: "  tallystick charge --key call-7 --actual usd_microcents=40000\n  tallystick charge --key bill-11 --actual usd_microcents=9000000 --incurred   # already spent: always booked",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			if len(s.actual) == 0 {
				return usagef("charge wants at least one --actual UNIT=N")
			}
			if set(cmd, "incurred") {
				body["incurred"] = s.incurred
			}
			return e.send(cmd, request{verb: events.VerbCharge, key: s.key, body: body, door: s.door})
		},
	}
	s.keyed(c)
	f := c.Flags()
	f.StringArrayVar(&s.actual, "actual", nil, "`UNIT=N`, once per unit")
	f.StringVar(&s.pool, "pool", "", "`POOL`; default: the agent's own")
	f.StringVar(&s.purpose, "purpose", "", "free text for the ledger")
	f.StringVar(&s.onBehalfOf, "on-behalf-of", "", "`PRINCIPAL` whose work it is; the agent must be its manager")
	f.StringArrayVar(&s.label, "label", nil, "`NAME=VALUE`, once per label")
	f.BoolVar(&s.incurred, "incurred", false, "the money is already gone: book it in any case")
	return c
}

// ask sends a verb that only reads and shows its answer.
func (e *environment) ask(cmd *cobra.Command, verb string, body map[string]any, show func([]byte) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
	defer cancel()
	c, err := e.asAgent(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ans, err := c.Do(ctx, client.Request{Verb: verb, Body: data})
	if err != nil {
		return err
	}
	if e.json() {
		return e.raw(ans.Body)
	}
	return show(ans.Body)
}

func (e *environment) balanceCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use: "balance [--pool POOL]", Short: "Show the limits from the agent's pool up to the root", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			return e.ask(cmd, events.VerbBalance, body, func(b []byte) error {
				r, err := decode[struct{ Pools []limitView }](b)
				if err != nil {
					return err
				}
				return e.showLimits(r.Pools)
			})
		},
	}
	c.Flags().StringVar(&s.pool, "pool", "", "`POOL`; default: the agent's own")
	return c
}

type reservationView struct {
	Reservation string           `json:"reservation"`
	State       string           `json:"state"`
	Pool        string           `json:"pool"`
	Amounts     map[string]int64 `json:"amounts"`
	Charged     map[string]int64 `json:"charged"`
	ExpiresAt   string           `json:"expires_at"`
}

func (e *environment) reservationCommand() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use: "reservation [--reservation ID | --reserve-key KEY]", Short: "Show one reservation, or list the live ones", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := s.which(body, args, true); err != nil {
				return err
			}
			if err := s.common(cmd, body); err != nil {
				return err
			}
			if set(cmd, "limit") {
				body["limit"] = s.limit
			}
			return e.ask(cmd, events.VerbReservation, body, e.showReservations)
		},
	}
	s.named(c)
	c.Flags().IntVar(&s.limit, "limit", 0, "at most `N` of the list")
	c.Flags().StringVar(&s.cursor, "cursor", "", "where the last list ended")
	return c
}

func (e *environment) showReservations(body []byte) error {
	r, err := decode[struct {
		reservationView
		Reservations []reservationView
		Cursor       string
	}](body)
	if err != nil {
		return err
	}
	if r.Reservation != "" {
		r.Reservations = []reservationView{r.reservationView}
	}
	t := newTable(e.out, "RESERVATION", "STATE", "POOL", "AMOUNTS", "CHARGED", "EXPIRES")
	for _, v := range r.Reservations {
		t.row(v.Reservation, v.State, v.Pool, amounts(v.Amounts), amounts(v.Charged), v.ExpiresAt)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if r.Cursor != "" {
		e.note("more: --cursor %s", r.Cursor)
	}
	return nil
}

func (e *environment) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show whom the token belongs to", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.ask(cmd, events.VerbWhoami, map[string]any{}, func(b []byte) error {
				a, err := decode[agentRow](b)
				if err != nil {
					return err
				}
				t := newTable(e.out)
				t.row("agent", a.Agent)
				t.row("org", a.Org)
				t.row("name", a.Name)
				t.row("pool", a.Pool)
				t.row("depth", a.Depth)
				t.row("parent", a.Parent)
				return t.flush()
			})
		},
	}
}
