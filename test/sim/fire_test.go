package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"tallystick/internal/testkit"
	"tallystick/pkg/budget"
	"tallystick/pkg/redisx"
)

// Of one round: two hundred register, three revoke their parent meanwhile.
const (
	fireRounds      = 8
	fireRegistering = 200
	fireRevoking    = 3
	fireChildrenMax = 60
	fireTreeMax     = 90
)

// fire is one round: a root, its child the parent, and who is born below it.
type fire struct {
	*testing.T
	server       *server
	org          string
	limit        budget.Limit
	root, parent budget.Agent

	enough  chan struct{} // closed when as many are born as the revokers wait for
	wait    int
	revoked atomic.Bool // a revocation has answered

	mu       sync.Mutex
	born     []budget.Agent
	held     map[string]budget.Agent // execution -> its holder
	outcomes map[string]int
}

// TestRevokeUnderFire: whenever the parent is revoked, nobody is born below it
// from then on and nobody born there takes anything.
func TestRevokeUnderFire(t *testing.T) {
	t.Parallel()
	s := newServer(t, testkit.Redis(t))
	if err := s.client.Set(t.Context(), s.clock, "1800000000000000", 0).Err(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for round := range fireRounds {
		f := newFire(t, s, 1+round*7)
		f.burn()
		f.assertNobodyLives()
		f.assertCounts()
		f.assertOutbox()
		for outcome, n := range f.outcomes {
			seen[outcome] += n
		}
	}
	for _, outcome := range []string{"registered", "register revoked", "reserve allowed"} {
		if seen[outcome] == 0 {
			t.Errorf("no %q in %d rounds: %v", outcome, fireRounds, seen)
		}
	}
}

func newFire(t *testing.T, s *server, wait int) *fire {
	f := &fire{
		T: t, server: s, org: "o" + strings.ReplaceAll(uuid.NewString(), "-", "")[:24], wait: wait,
		enough: make(chan struct{}), held: map[string]budget.Agent{}, outcomes: map[string]int{},
	}
	f.limit = budget.Limit{LimitID: limitID("p", "usd"), Rev: 1}
	_, err := s.store.ApplyPolicy(t.Context(), redisx.PolicyArgs{Org: f.org, Pool: "p", Rev: 1, Limits: []redisx.PolicyLimit{
		{Unit: "usd", Period: budget.PeriodNone, Cap: 1_000_000, OnOverrun: "reject", State: "open"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*budget.Agent{&f.root, &f.parent} {
		if *a, err = f.register(f.root); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fire) register(parent budget.Agent) (budget.Agent, error) {
	a := budget.Agent{Org: f.org, ID: uuid.NewString()}
	r := redisx.Registration{Org: f.org, Agent: a.ID, Name: "n", Root: a.ID, Pool: "p"}
	if parent.ID != "" {
		a.Ancestors = append([]string{parent.ID}, parent.Ancestors...)
		r.Parent, r.Root, r.Ancestors, r.Depth = parent.ID, f.rootID(), a.Ancestors, len(a.Ancestors)
	}
	_, _, err := f.server.store.Register(f.Context(), redisx.RegisterArgs{Registration: r, ChildrenMax: fireChildrenMax, TreeMax: fireTreeMax})
	return a, err
}

func (f *fire) rootID() string { return f.root.ID }

func (f *fire) reserve(a budget.Agent) (budget.Decision, string) {
	execution := redisx.ExecutionID(f.org, a.ID, "reserve", uuid.NewString())
	b := f.server.store.Batch()
	p := b.Reserve(redisx.ReserveArgs{
		Agent: a, Execution: execution, Fingerprint: fingerprint(1), Amounts: budget.Amounts{"usd": 1}, TTL: time.Minute, Path: []budget.Limit{f.limit},
	})
	b.Run(f.Context())
	if p.Err != nil {
		f.Errorf("reserve: %v", p.Err)
	}
	return p.Decision, execution
}

// burn runs the round.
func (f *fire) burn() {
	var all sync.WaitGroup
	for i := range fireRegistering {
		all.Go(func() { f.registering(i) })
	}
	for range fireRevoking {
		all.Go(f.revoking)
	}
	all.Wait()
}

// registering has one more child, of the parent or of one that was just born
// there, and lets it reserve.
func (f *fire) registering(i int) {
	parent, after := f.pick(i), f.revoked.Load()
	child, err := f.register(parent)
	var limit *redisx.AgentLimit
	switch {
	case err == nil && after:
		f.Errorf("%s was born below a revoked parent", child.ID)
	case err == nil:
		f.count("registered")
	case errors.Is(err, redisx.ErrRevoked):
		f.count("register revoked")
		return
	case errors.As(err, &limit):
		f.count("limit " + limit.Field)
		return
	default:
		f.Error(err)
		return
	}
	f.mu.Lock()
	f.born = append(f.born, child)
	if len(f.born) == f.wait {
		close(f.enough)
	}
	f.mu.Unlock()
	after = f.revoked.Load()
	d, execution := f.reserve(child)
	if d.Outcome == budget.Allowed {
		if after {
			f.Errorf("%s took money below a revoked parent", child.ID)
		}
		f.mu.Lock()
		f.held[execution] = child
		f.mu.Unlock()
	}
	f.count("reserve " + string(d.Outcome))
}

func (f *fire) pick(i int) budget.Agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i%4 == 3 && len(f.born) > 0 {
		return f.born[i%len(f.born)]
	}
	return f.parent
}

func (f *fire) count(outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcomes[outcome]++
}

func (f *fire) revoking() {
	<-f.enough
	if err := f.server.store.Revoke(f.Context(), redisx.RevokeArgs{Agent: f.parent, By: redisx.Operator}); err != nil {
		f.Error(err)
		return
	}
	f.revoked.Store(true)
	f.mu.Lock()
	known := append([]budget.Agent{f.parent}, f.born...)
	f.mu.Unlock()
	if err := f.server.store.Uncount(f.Context(), f.rootID(), known); err != nil {
		f.Error(err)
	}
}

// assertNobodyLives: each is denied whatever would take money or people, and
// may still give money back.
func (f *fire) assertNobodyLives() {
	f.Helper()
	for _, a := range append([]budget.Agent{f.parent}, f.born...) {
		if d, _ := f.reserve(a); d.Denial == nil || d.Denial.Reason != budget.ReasonRevoked {
			f.Errorf("%s reserves after the revocation: %+v", a.ID, d)
		}
		if _, err := f.register(a); !errors.Is(err, redisx.ErrRevoked) {
			f.Errorf("%s registers after the revocation: %v", a.ID, err)
		}
		standing, err := f.server.store.Standing(f.Context(), a)
		if err != nil || !standing.Revoked {
			f.Errorf("standing of %s: %+v, %v", a.ID, standing, err)
		}
	}
	for execution, holder := range f.held {
		b := f.server.store.Batch()
		p := b.Settle(redisx.SettleArgs{
			Caller: holder, Execution: execution, Key: "s", Fingerprint: "f", Actual: budget.Amounts{"usd": 1}, Final: true, Guess: []budget.Limit{f.limit},
		})
		b.Run(f.Context())
		if p.Err != nil || p.Decision.Outcome != budget.Settled {
			f.Errorf("settle of a dead child: %+v, %v", p.Decision, p.Err)
		}
	}
}

func (f *fire) assertCounts() {
	f.Helper()
	direct := 0
	for _, a := range f.born {
		if a.Ancestors[0] == f.parent.ID {
			direct++
		}
	}
	if direct > fireChildrenMax || len(f.born)+2 > fireTreeMax {
		f.Errorf("%d children, %d in the tree", direct, len(f.born)+2)
	}
	if err := f.server.store.Uncount(f.Context(), f.rootID(), f.born); err != nil {
		f.Fatal(err)
	}
	for _, a := range append([]budget.Agent{f.root, f.parent}, f.born...) {
		s, err := f.server.store.Standing(f.Context(), a)
		if err != nil || s.Children != 0 || s.Tree != 1 {
			f.Errorf("standing of %s: %+v, %v; the root alone is left", a.ID, s, err)
		}
	}
	rows, err := f.server.store.Balances(f.Context(), f.org, []budget.LimitID{f.limit.LimitID})
	if err != nil || rows[0].Spent != int64(len(f.held)) || rows[0].Held != 0 {
		f.Errorf("%d settled, %+v, %v", len(f.held), rows, err)
	}
}

// assertOutbox: in the order of the effects nothing was begun below the parent
// after it was revoked.
func (f *fire) assertOutbox() {
	f.Helper()
	part, after, revoked := f.server.store.Partition(f.org), "", false
	for {
		page, err := f.server.store.OutboxRead(f.Context(), part, after, 500)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range page.Entries {
			after = e.OutboxID
			if e.Org != f.org {
				continue
			}
			revoked = revoked || e.Kind == budget.KindAgentRevoked && e.Agent == f.parent.ID
			if begun := e.Kind == budget.KindAgentRegistered || e.Kind == budget.KindReserved; revoked && begun {
				f.Errorf("%s of %s after the revocation", e.Kind, e.Agent)
			}
		}
		if len(page.Entries) < 500 {
			break
		}
	}
	if !revoked {
		f.Error(fmt.Errorf("no entry of the revocation of %s", f.parent.ID))
	}
}
