package ledger

import (
	"context"
	"encoding/json"
	"strings"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Verdict is what a verification found.
type Verdict string

// Verdicts: the first bad entry decides.
const (
	VerdictOK      Verdict = "ok"
	VerdictAltered Verdict = "altered" // body, sequence or prev do not fit the hash, or the link is broken
	VerdictFork    Verdict = "fork"    // a sequence that was there before
	VerdictMissing Verdict = "missing" // a sequence is skipped, or the first is not 1
	VerdictForeign Verdict = "foreign" // an entry of another org
	VerdictGap     Verdict = "gap"     // a loss that an operator has accepted
)

// Verification is the result of walking one org's chain.
type Verification struct {
	Org      string  `json:"org"`
	Entries  uint64  `json:"entries"`
	Head     string  `json:"head"`
	Verdict  Verdict `json:"verdict"`
	FirstBad *uint64 `json:"first_bad,omitempty"` // its Tally-Seq
}

// Verifier walks one org's chain, an entry at a time, in the order stored.
// It needs nothing but the entries, so it works on an export too.
type Verifier struct {
	org      string
	head     link
	entries  uint64
	verdict  Verdict
	firstBad uint64
}

// NewVerifier verifies the chain of org from its first entry; with org "" the
// first entry names the org.
func NewVerifier(org string) *Verifier { return &Verifier{org: org, verdict: VerdictOK} }

// Add looks at the next entry. After the first bad one nothing changes.
func (v *Verifier) Add(m Message) {
	if v.verdict != VerdictOK {
		return
	}
	var body struct{ Org, Kind string }
	parsed := json.Unmarshal(m.Body, &body) == nil
	if v.org == "" {
		v.org = body.Org
	}
	switch {
	case !parsed || Hash(events.EntryHash(m.Prev, m.Seq, m.Body)) != m.Hash:
		v.verdict = VerdictAltered
	case body.Org != v.org || !strings.HasPrefix(m.Subject, strings.TrimSuffix(events.LedgerOf(v.org), "*")):
		v.verdict = VerdictForeign
	case m.Seq <= v.head.seq:
		v.verdict = VerdictFork
	case m.Seq != v.head.seq+1:
		v.verdict = VerdictMissing
	case m.Prev != v.head.hash:
		v.verdict = VerdictAltered // an earlier entry was rewritten together with its hash
	case body.Kind == string(budget.KindGap):
		v.verdict = VerdictGap
	default:
		v.head = link{seq: m.Seq, hash: m.Hash}
		v.entries++
		return
	}
	v.firstBad = m.Seq
}

// Result is the verification so far.
func (v *Verifier) Result() Verification {
	r := Verification{Org: v.org, Entries: v.entries, Verdict: v.verdict, Head: v.head.hash.String()}
	if v.verdict != VerdictOK {
		bad := v.firstBad
		r.FirstBad = &bad
	}
	return r
}

// Verify walks the chain of an org in the stream.
func (l *Ledger) Verify(ctx context.Context, org string) (Verification, error) {
	v := NewVerifier(org)
	err := l.Walk(ctx, org, 0, func(m Message) error {
		v.Add(m)
		return nil
	})
	return v.Result(), err
}
