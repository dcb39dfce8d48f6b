package ledger

import (
	"context"
	"strings"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Verdict is what a verification found.
type Verdict string

// Verdicts: the first bad entry decides; where there is none, a checkpoint.
const (
	VerdictOK      Verdict = "ok"
	VerdictAltered Verdict = "altered"  // body, sequence or prev do not fit the hash, or the link is broken
	VerdictFork    Verdict = "fork"     // a sequence that was there before
	VerdictMissing Verdict = "missing"  // a sequence is skipped, or the first is not 1
	VerdictForeign Verdict = "foreign"  // an entry of another org
	VerdictGap     Verdict = "gap"      // a loss that an operator has accepted
	VerdictTailCut Verdict = "tail_cut" // sound, and shorter than the checkpoint says
	VerdictRebuilt Verdict = "rebuilt"  // sound, and not what the checkpoint says
)

// Verification is the result of walking one org's chain.
type Verification struct {
	Org      string  `json:"org"`
	Entries  uint64  `json:"entries"`
	Head     string  `json:"head"`
	Verdict  Verdict `json:"verdict"`
	FirstBad *uint64 `json:"first_bad,omitempty"` // its Tally-Seq; for rebuilt, the first one known to be wrong

	// The sequences that are not there: of missing and tail_cut.
	MissingFrom uint64 `json:"missing_from,omitempty"`
	MissingTo   uint64 `json:"missing_to,omitempty"`
	// Checkpoint is the count of the checkpoint it was held against.
	Checkpoint *uint64 `json:"checkpoint,omitempty"`
}

// Verifier walks one org's chain, an entry at a time, in the order stored.
// It needs nothing but the entries, so it works on an export too, and keeps
// nothing but the last link.
type Verifier struct {
	org      string
	head     link
	verdict  Verdict
	firstBad uint64
	missing  [2]uint64

	against *link // a checkpoint
	met     bool  // the chain passed through it
	names   Names
}

// NewVerifier verifies the chain of org from its first entry; with org "" the
// first entry names the org.
func NewVerifier(org string) *Verifier {
	return &Verifier{org: org, verdict: VerdictOK, names: Names{}}
}

// Against holds the chain against a checkpoint: after count entries its head
// was hash. It is said before the first Add.
func (v *Verifier) Against(count uint64, hash Hash) {
	v.against = &link{seq: count, hash: hash}
	v.met = v.against.seq == v.head.seq && v.against.hash == v.head.hash
}

// Add looks at the next entry. After the first bad one nothing changes.
func (v *Verifier) Add(m Message) {
	if v.verdict != VerdictOK {
		return
	}
	org, kind, err := v.names.place(m.Body)
	if err != nil {
		v.bad(VerdictAltered, m.Seq)
		return
	}
	v.AddRead(m, org, kind)
}

// AddRead is Add for an entry whose body has been read: its org and its kind.
func (v *Verifier) AddRead(m Message, org string, kind budget.Kind) {
	if v.verdict != VerdictOK {
		return
	}
	if v.org == "" {
		v.org = org
	}
	switch {
	case Hash(events.EntryHash(m.Prev, m.Seq, m.Body)) != m.Hash:
		v.bad(VerdictAltered, m.Seq)
	case org != v.org || !subjectOf(m.Subject, v.org):
		v.bad(VerdictForeign, m.Seq)
	case m.Seq <= v.head.seq && v.head.seq > 0:
		v.bad(VerdictFork, m.Seq)
	case m.Seq != v.head.seq+1:
		v.bad(VerdictMissing, m.Seq)
		if m.Seq > 0 {
			v.missing = [2]uint64{v.head.seq + 1, m.Seq - 1}
		}
	case m.Prev != v.head.hash:
		v.bad(VerdictAltered, m.Seq) // an earlier entry was rewritten together with its hash
	case kind == budget.KindGap:
		v.bad(VerdictGap, m.Seq)
	default:
		v.link(m)
	}
}

func (v *Verifier) link(m Message) {
	v.head = link{seq: m.Seq, hash: m.Hash}
	if v.against != nil && v.against.seq == m.Seq {
		v.met = v.against.hash == m.Hash
	}
}

func (v *Verifier) bad(verdict Verdict, seq uint64) { v.verdict, v.firstBad = verdict, seq }

// AcceptGap goes on behind an accepted loss, which is sound in itself: whoever
// signs does so, whoever asks for a verdict does not.
func (v *Verifier) AcceptGap(m Message) {
	if v.verdict == VerdictGap && v.firstBad == m.Seq {
		v.verdict, v.firstBad = VerdictOK, 0
		v.link(m)
	}
}

// subjectOf reports whether an entry was stored under an org's subject.
func subjectOf(subject, org string) bool {
	rest, ok := strings.CutPrefix(subject, ledgerPrefix)
	of, _, more := strings.Cut(rest, ".")
	return ok && more && of == org
}

var ledgerPrefix = strings.TrimSuffix(events.AllLedger, ">")

// Head is the last good link: its sequence and hash.
func (v *Verifier) Head() (seq uint64, hash Hash) { return v.head.seq, v.head.hash }

// Result is the verification so far.
func (v *Verifier) Result() Verification {
	r := Verification{Org: v.org, Entries: v.head.seq, Verdict: v.verdict, Head: v.head.hash.String()}
	bad := v.firstBad
	r.MissingFrom, r.MissingTo = v.missing[0], v.missing[1]
	if v.against != nil {
		count := v.against.seq
		r.Checkpoint = &count
		switch {
		case v.verdict != VerdictOK:
		case count > v.head.seq:
			r.Verdict, bad = VerdictTailCut, v.head.seq+1
			r.MissingFrom, r.MissingTo = v.head.seq+1, count
		case !v.met:
			r.Verdict, bad = VerdictRebuilt, count
		}
	}
	if r.Verdict != VerdictOK {
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
