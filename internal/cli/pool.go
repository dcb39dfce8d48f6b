package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (e *environment) poolCommand() *cobra.Command {
	return group("pool", "Budgets: pools and their limits",
		`  tallystick pool create team --org acme --unit usd_microcents --cap 10000000000
  tallystick pool create research --org acme --parent team --limit usd_microcents=500000000 --limit tokens=2000000 --slots 'openai/*=8'
  tallystick pool set research --org acme --unit tokens --cap 3000000
  tallystick pool show --org acme`,
		e.poolCreate(), e.poolSet(), e.poolFreeze("freeze"), e.poolFreeze("unfreeze"), e.poolFreeze("close"), e.poolShow())
}

// poolFlags are the flags that create and set share.
type poolFlags struct {
	org, unit, cap, period, parent string
	onOverrun, epsilon, lateWindow string
	limits, slots                  []string
}

func (p *poolFlags) declare(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.org, "org", "", "`ORG`")
	f.StringVar(&p.unit, "unit", "", "`UNIT` of the limit, such as usd_microcents (1e-8 USD), tokens, calls")
	f.StringVar(&p.cap, "cap", "", "`N`, or none")
	f.StringVar(&p.period, "period", "", "none (others later)")
	f.StringArrayVar(&p.limits, "limit", nil, "`UNIT=CAP[/PERIOD]`, once per limit")
	f.StringVar(&p.parent, "parent", "", "parent `POOL`: its limits hold too")
	f.StringVar(&p.onOverrun, "on-overrun", "", "reject (default) or charge a settle that is above its reservation")
	f.StringVar(&p.epsilon, "epsilon", "", "overrun that is let pass within the cap, as `N` of the unit")
	f.StringVar(&p.lateWindow, "late-window", "", "how long an expired reservation's money stays withheld, such as 1h; 0: not at all")
	f.StringArrayVar(&p.slots, "slots", nil, "concurrency: `N`, or PATTERN=N, once per pattern of target")
	require(c, "org")
}

// policy reads the flags that describe how a limit behaves.
func (p *poolFlags) policy(cmd *cobra.Command, into map[string]any) error {
	if set(cmd, "on-overrun") {
		if p.onOverrun != "reject" && p.onOverrun != "charge" {
			return usagef("--on-overrun %q: want reject or charge", p.onOverrun)
		}
		into["on_overrun"] = p.onOverrun
	}
	if set(cmd, "epsilon") {
		n, err := parseCount(p.epsilon)
		if err != nil {
			return usagef("--epsilon: %v", err)
		}
		into["epsilon"] = n
	}
	if set(cmd, "late-window") {
		ms, err := parseLateWindow(p.lateWindow)
		if err != nil {
			return err
		}
		into["late_window_ms"] = ms
	}
	return nil
}

func (p *poolFlags) slotList(cmd *cobra.Command, into map[string]any) error {
	if !set(cmd, "slots") {
		return nil
	}
	slots, err := parseSlots(p.slots)
	into["slots"] = slots
	return err
}

// capValue reads --cap: a whole number, or none for a limit that only counts.
func (p *poolFlags) capValue() (any, error) {
	if p.cap == "none" {
		return nil, nil
	}
	n, err := parseCount(p.cap)
	if err != nil {
		return nil, usagef("--cap: %v, nor none", err)
	}
	return n, nil
}

func (e *environment) poolCreate() *cobra.Command {
	var p poolFlags
	c := &cobra.Command{
		Use:   "create NAME --org ORG (--unit UNIT --cap N | --limit UNIT=CAP...)",
		Short: "Create a pool with one or more limits",
		Example: `  tallystick pool create research --org acme --unit usd_microcents --cap 500000000   # five dollars
  tallystick pool create research --org acme --limit usd_microcents=500000000 --limit calls=1000`,
		Args: exactly("a pool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := p.create(cmd, args[0])
			if err != nil {
				return err
			}
			return e.admin(cmd, "pool_create", "", req, e.showPool)
		},
	}
	p.declare(c)
	return c
}

func (p *poolFlags) create(cmd *cobra.Command, name string) (map[string]any, error) {
	req := map[string]any{"org": p.org, "pool": name}
	if p.parent != "" {
		req["parent"] = p.parent
	}
	var list []map[string]any
	switch {
	case len(p.limits) > 0 && (p.unit != "" || set(cmd, "cap") || p.period != ""):
		return nil, usagef("either --unit and --cap, or --limit, not both")
	case len(p.limits) > 0:
		for _, s := range p.limits {
			l, err := parseLimit(s)
			if err != nil {
				return nil, err
			}
			list = append(list, limitBody(l.unit, l.cap, l.period))
		}
	case p.unit == "" || !set(cmd, "cap"):
		return nil, usagef("a pool needs a limit: --unit UNIT --cap N, or --limit UNIT=CAP")
	default:
		if err := checkPeriod(p.period); err != nil {
			return nil, err
		}
		n, err := p.capValue()
		if err != nil {
			return nil, err
		}
		list = append(list, limitBody(p.unit, n, p.period))
	}
	for _, l := range list {
		if err := p.policy(cmd, l); err != nil {
			return nil, err
		}
	}
	req["limits"] = list
	return req, p.slotList(cmd, req)
}

func limitBody(unit string, limitCap any, period string) map[string]any {
	l := map[string]any{"unit": unit, "cap": limitCap}
	if period != "" {
		l["period"] = period
	}
	return l
}

func (e *environment) poolSet() *cobra.Command {
	var p poolFlags
	c := &cobra.Command{
		Use:     "set NAME --org ORG [flags]",
		Short:   "Change a pool; only what is named changes",
		Example: "  tallystick pool set research --org acme --cap 900000000\n  tallystick pool set research --org acme --slots 4",
		Args:    exactly("a pool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := p.change(cmd, args[0])
			if err != nil {
				return err
			}
			return e.admin(cmd, "pool_set", "", req, e.showPool)
		},
	}
	p.declare(c)
	return c
}

func (p *poolFlags) change(cmd *cobra.Command, name string) (map[string]any, error) {
	req := map[string]any{"org": p.org, "pool": name}
	if set(cmd, "parent") {
		return nil, notYet("moving a pool to another parent")
	}
	if err := checkPeriod(p.period); err != nil {
		return nil, err
	}
	switch {
	case len(p.limits) > 1:
		return nil, usagef("set changes one limit at a time: one --limit, or --unit and --cap")
	case len(p.limits) == 1:
		l, err := parseLimit(p.limits[0])
		if err != nil {
			return nil, err
		}
		req["unit"], req["cap"] = l.unit, l.cap
		if l.period != "" {
			req["period"] = l.period
		}
	}
	if p.unit != "" {
		req["unit"] = p.unit
	}
	if p.period != "" {
		req["period"] = p.period
	}
	if set(cmd, "cap") {
		n, err := p.capValue()
		if err != nil {
			return nil, err
		}
		req["cap"] = n
	}
	if err := p.policy(cmd, req); err != nil {
		return nil, err
	}
	if err := p.slotList(cmd, req); err != nil {
		return nil, err
	}
	if len(req) == 2 {
		return nil, usagef("nothing to change: name --cap, --epsilon, --on-overrun, --late-window or --slots")
	}
	return req, nil
}

func (e *environment) poolFreeze(verb string) *cobra.Command {
	var org string
	short := map[string]string{
		"freeze":   "Stop new reservations and charges; settles and releases go on",
		"unfreeze": "Let a frozen pool work again",
		"close":    "End a pool for good: nothing new is taken, what is held can be settled",
	}[verb]
	c := &cobra.Command{
		Use: verb + " NAME --org ORG", Short: short, Args: exactly("a pool name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.admin(cmd, "pool_"+verb, "", map[string]any{"org": org, "pool": args[0]}, e.showPool)
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

func (e *environment) poolShow() *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "show [NAME] --org ORG", Short: "Show one pool, or all of an org", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := map[string]any{"org": org}
			if len(args) == 1 {
				req["pool"] = args[0]
			}
			return e.admin(cmd, "pool_show", "", req, func(body []byte) error {
				r, err := decode[struct{ Pools []poolView }](body)
				if err != nil {
					return err
				}
				return e.showPools(r.Pools)
			})
		},
	}
	c.Flags().StringVar(&org, "org", "", "`ORG`")
	require(c, "org")
	return c
}

type limitView struct {
	Pool        string `json:"pool"` // in an agent's balance
	Unit        string `json:"unit"`
	Period      string `json:"period"`
	Cap         *int64 `json:"cap"`
	Held        int64  `json:"held"`
	Spent       int64  `json:"spent"`
	Withheld    int64  `json:"withheld"`
	Remaining   *int64 `json:"remaining"`
	Outstanding int64  `json:"outstanding"`
}

type poolView struct {
	Pool   string      `json:"pool"`
	Parent string      `json:"parent"`
	Frozen bool        `json:"frozen"`
	Closed bool        `json:"closed"`
	Limits []limitView `json:"limits"`
	Slots  []slotFlag  `json:"slots"`
}

func (p poolView) state() string {
	switch {
	case p.Closed:
		return "closed"
	case p.Frozen:
		return "frozen"
	}
	return "open"
}

func (e *environment) showPool(body []byte) error {
	r, err := decode[struct{ Pool poolView }](body)
	if err != nil {
		return err
	}
	return e.showPools([]poolView{r.Pool})
}

func (e *environment) showPools(pools []poolView) error {
	t := newTable(e.out, "POOL", "PARENT", "UNIT", "CAP", "HELD", "SPENT", "WITHHELD", "REMAINING", "OUT", "STATE")
	for _, p := range pools {
		state := p.state()
		for _, l := range p.Limits {
			t.row(p.Pool, p.Parent, l.Unit, optional(l.Unit, l.Cap), amount(l.Unit, l.Held), amount(l.Unit, l.Spent),
				amount(l.Unit, l.Withheld), optional(l.Unit, l.Remaining), l.Outstanding, state)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, p := range pools {
		for _, s := range p.Slots {
			fmt.Fprintf(e.out, "pool %s: at most %d at a time for %s\n", p.Pool, s.Max, s.Pattern)
		}
	}
	return nil
}

// optional shows a figure that an uncapped limit lacks.
func optional(unit string, n *int64) string {
	if n == nil {
		return "none"
	}
	return amount(unit, *n)
}
