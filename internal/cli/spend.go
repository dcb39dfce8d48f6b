package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// request is one agent's request as the flags describe it.
type request struct {
	verb, key  string
	body       map[string]any
	door       string
	org, agent string                  // operator on an agent's behalf
	keyless    bool                    // a dry run changes nothing
	show       func(body []byte) error // default showAnswer
}

// send asks as agent, or as operator where org and agent are named, and shows
// the answer. A denial is a value with an exit code of its own.
func (e *environment) send(cmd *cobra.Command, r request) error {
	if r.key == "" && !r.keyless {
		return usagef("%s wants --key KEY: the same key on every retry keeps it from happening twice", r.verb)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), e.timeout)
	defer cancel()
	var body []byte
	var replayed bool
	var err error
	if r.org != "" || r.agent != "" {
		body, err = e.sendAsOperator(ctx, r)
	} else {
		body, replayed, err = e.sendAsAgent(ctx, r)
	}
	if err != nil {
		return err
	}
	if replayed {
		e.note("this key was answered before; nothing changed")
	}
	head, err := decode[struct{ Outcome string }](body)
	if err != nil {
		return err
	}
	denied := head.Outcome == events.OutcomeDenied
	switch {
	case e.json():
		err = e.raw(body)
	case r.show != nil && !denied:
		err = r.show(body)
	default:
		err = e.showAnswer(body)
	}
	if err == nil && denied {
		return &exitError{code: events.ExitDenied}
	}
	return err
}

func (e *environment) sendAsAgent(ctx context.Context, r request) ([]byte, bool, error) {
	c, err := e.asAgent(ctx)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	switch r.door {
	case "durable":
		c = c.Durable()
	case "direct", "":
	default:
		return nil, false, usagef("--door %q: want direct or durable", r.door)
	}
	data, err := json.Marshal(r.body)
	if err != nil {
		return nil, false, err
	}
	ans, err := c.Do(ctx, client.Request{Verb: r.verb, Key: r.key, Body: data})
	return ans.Body, ans.Replayed, err
}

func (e *environment) sendAsOperator(ctx context.Context, r request) ([]byte, error) {
	if r.org == "" || r.agent == "" {
		return nil, usagef("as operator give both --org and --agent")
	}
	if r.door == "durable" {
		return nil, usagef("operators have no durable door")
	}
	op, err := e.asOperator()
	if err != nil {
		return nil, err
	}
	defer op.Close()
	// release has a --reason of its own, which stands before the global one.
	if why, ok := r.body["reason"].(string); ok && events.CheckReason(why) == nil {
		op = op.Because(why)
	}
	r.body["org"], r.body["agent"] = r.org, r.agent
	return op.Do(ctx, r.verb, r.key, r.body)
}

// answerView is any answer to a verb that spends.
type answerView struct {
	Outcome     string           `json:"outcome"`
	Reason      string           `json:"reason"`
	Reservation string           `json:"reservation"`
	Amounts     map[string]int64 `json:"amounts"`
	ExpiresAt   string           `json:"expires_at"`
	Charged     map[string]int64 `json:"charged"`
	Returned    map[string]int64 `json:"returned"`
	Overrun     map[string]int64 `json:"overrun"`
	Authorised  map[string]int64 `json:"authorised"`
	Actual      map[string]int64 `json:"actual"`
	Epsilon     map[string]int64 `json:"epsilon"`
	CostUnknown bool             `json:"cost_unknown"`
	PoolMissing bool             `json:"pool_missing"`
	Warnings    []string         `json:"warnings"`
	SimilarTo   string           `json:"similar_to"`
	Pool        string           `json:"pool"`
	Unit        string           `json:"unit"`
	Requested   *int64           `json:"requested"`
	Remaining   *int64           `json:"remaining"`
	Holders     *int64           `json:"holders"`
	RetryMS     int64            `json:"retry_after_ms"`
	Pools       []limitView      `json:"pools"`
}

func (e *environment) showAnswer(body []byte) error {
	a, err := decode[answerView](body)
	if err != nil {
		return err
	}
	t := newTable(e.out)
	t.row("outcome", a.Outcome)
	some := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	many := func(name string, m map[string]int64) {
		if len(m) > 0 {
			t.row(name, amounts(m))
		}
	}
	one := func(name string, n *int64) {
		if n != nil {
			t.row(name, amount(a.Unit, *n))
		}
	}
	some("reason", a.Reason)
	some("reservation", a.Reservation)
	some("pool", a.Pool)
	many("amounts", a.Amounts)
	some("expires", a.ExpiresAt)
	one("requested", a.Requested)
	one("remaining", a.Remaining)
	if a.Holders != nil {
		t.row("holders", *a.Holders)
	}
	many("authorised", a.Authorised)
	many("actual", a.Actual)
	many("tolerance", a.Epsilon)
	many("charged", a.Charged)
	many("returned", a.Returned)
	many("overrun", a.Overrun)
	if a.CostUnknown {
		t.row("note", "a cost is unknown; what was reserved of it was charged")
	}
	if a.PoolMissing {
		t.row("note", "a pool's counters are missing; the ledger has the effect")
	}
	for _, w := range a.Warnings {
		t.row("warning", w+" "+a.SimilarTo)
	}
	if a.RetryMS > 0 {
		t.row("new key after", (time.Duration(a.RetryMS) * time.Millisecond).String())
	}
	if err := t.flush(); err != nil {
		return err
	}
	if c, ok := events.Lookup(a.Reason); ok {
		e.note("%s hint: %s", c.When, c.Hint)
	}
	if len(a.Pools) > 0 {
		return e.showLimits(a.Pools)
	}
	return nil
}

// showLimits shows rows of a balance or of an answer.
func (e *environment) showLimits(rows []limitView) error {
	t := newTable(e.out, "POOL", "UNIT", "CAP", "HELD", "SPENT", "WITHHELD", "REMAINING")
	for _, l := range rows {
		t.row(l.Pool, l.Unit, optional(l.Unit, l.Cap), amount(l.Unit, l.Held), amount(l.Unit, l.Spent), amount(l.Unit, l.Withheld), optional(l.Unit, l.Remaining))
	}
	return t.flush()
}

// spendFlags are the flags that agent commands share; each command declares
// those it has.
type spendFlags struct {
	key, reservation, reserveKey string
	door, org, agent             string
	amount, actual, add, ceiling []string
	label                        []string
	ttl, pool, target, settler   string
	purpose, onBehalfOf, reason  string
	status                       string
	dryRun, incurred             bool
	dispatched, final            bool
	limit                        int
	cursor                       string
}

func (s *spendFlags) keyed(c *cobra.Command) {
	c.Flags().StringVar(&s.key, "key", "", "idempotency `KEY`: repeat it on every retry")
	c.Flags().StringVar(&s.door, "door", "direct", "direct, or durable: stored first, survives a restart")
}

func (s *spendFlags) named(c *cobra.Command) {
	c.Flags().StringVar(&s.reservation, "reservation", "", "`ID` of the reservation")
	c.Flags().StringVar(&s.reserveKey, "reserve-key", "", "or the `KEY` of its reserve")
}

func (s *spendFlags) onBehalf(c *cobra.Command) {
	c.Flags().StringVar(&s.org, "org", "", "as operator: the `ORG`")
	c.Flags().StringVar(&s.agent, "agent", "", "as operator: the `AGENT` that holds it")
}

// which puts reservation or key into a body; the id may also be the argument.
func (s *spendFlags) which(body map[string]any, args []string, optional bool) error {
	switch {
	case len(args) == 1 && s.reservation != "":
		return usagef("give the reservation once: as --reservation or as the argument")
	case len(args) == 1:
		s.reservation = args[0]
	}
	switch {
	case s.reservation != "" && s.reserveKey != "":
		return usagef("--reservation and --reserve-key exclude each other")
	case s.reservation != "":
		body["reservation"] = s.reservation
	case s.reserveKey != "":
		body["key"] = s.reserveKey
	case !optional:
		return usagef("name the reservation: --reservation ID, or --reserve-key KEY")
	}
	return nil
}

// common puts what several verbs share into a body: only what was given.
func (s *spendFlags) common(cmd *cobra.Command, body map[string]any) error {
	for flag, v := range map[string]string{"pool": s.pool, "target": s.target, "settler": s.settler, "purpose": s.purpose, "on-behalf-of": s.onBehalfOf, "reason": s.reason, "status": s.status, "cursor": s.cursor} {
		// Local: --reason of release is a field, the global one a header.
		if f := cmd.LocalFlags().Lookup(flag); f != nil && f.Changed {
			body[fieldOf(flag)] = v
		}
	}
	if s.ttl != "" {
		ms, err := parseMillis("ttl", s.ttl)
		if err != nil {
			return err
		}
		body["ttl_ms"] = ms
	}
	for flag, list := range map[string][]string{"amount": s.amount, "actual": s.actual, "add": s.add, "ceiling": s.ceiling} {
		if len(list) == 0 {
			continue
		}
		m, err := parseAmounts(flag, list)
		if err != nil {
			return err
		}
		body[fieldOf(flag)] = m
	}
	if len(s.label) > 0 {
		m, err := parseLabels(s.label)
		if err != nil {
			return err
		}
		body["labels"] = m
	}
	return nil
}

// fieldOf is the contract's field of a flag.
func fieldOf(flag string) string {
	switch flag {
	case "amount":
		return "amounts"
	case "ceiling":
		return "ceilings"
	case "on-behalf-of":
		return "on_behalf_of"
	}
	return flag
}
