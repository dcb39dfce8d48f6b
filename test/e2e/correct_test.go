package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// correctionLine is an entry of the ledger with its place in the chain.
type correctionLine struct {
	Seq        uint64
	Hash, Body string
}

// lines are an org's entries of a kind, once there are n of them.
func (s *system) lines(org, kind string, n int) (out []correctionLine) {
	s.Helper()
	s.eventually(fmt.Sprint(n, " ", kind), 20*time.Second, func() error {
		raw, _ := json.Marshal(s.must("ledger", "list", "--org", org)["entries"])
		var all []correctionLine
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
		out = out[:0]
		for _, l := range all {
			if strings.Contains(l.Body, `"kind":"`+kind+`"`) {
				out = append(out, l)
			}
		}
		if len(out) != n {
			return fmt.Errorf("%d", len(out))
		}
		return nil
	})
	return out
}

// TestCorrections: an operator corrects, refunds and disputes what stands on
// the ledger; each once, the original stays, and all of it survives a rebuild.
func TestCorrections(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, other := s.org(), s.org()
	s.must("pool", "create", "root", "--org", org, "--limit", "usd_microcents=1000")
	s.must("pool", "create", "p", "--org", org, "--parent", "root", "--limit", "usd_microcents=1000")
	a := s.agent(org, "p")
	s.must("principal", "create", "customer", "--org", org, "--manager", a.Agent)
	customer := acting{s, org, "customer"}
	a.tells("charged", "charge", "c", customer.takes(object{"actual": usd(100), "labels": object{"job": "7"}}))
	charged := s.lines(org, "charged", 1)[0]
	seq := fmt.Sprint(charged.Seq)

	on := " --org " + org + " --reason r --seq " + seq
	for _, l := range []line{
		{2, "", "ledger correct --org " + org + " --seq " + seq + " --amount usd_microcents=-1"},
		{2, "", "ledger correct --amount usd_microcents=1.5" + on},
		{2, "", "ledger correct --amount usd_microcents=0" + on},
		{2, "invalid_argument", "ledger refund --amount usd_microcents=-1" + on},
		{2, "invalid_argument", "ledger correct --amount tokens=1" + on},
		{2, "invalid_argument", "ledger correct --amount usd_microcents=-101 --key below" + on},
		{2, "invalid_argument", "ledger correct --amount usd_microcents=-1 --hash " + strings.Repeat("0", 64) + on},
		{3, "not_found", "ledger correct --amount usd_microcents=-1 --evidence " + strings.Repeat("0", 64) + on},
		{3, "not_found", "ledger correct --amount usd_microcents=-1 --reason r --seq 9999 --org " + org},
		{3, "not_found", "ledger correct --amount usd_microcents=-1 --reason r --org " + other + " --seq 9999"},
		{3, "not_found", "ledger correct --amount usd_microcents=-1 --reason r --org nobody --seq 1"},
		{0, "corrected", "ledger correct --amount usd_microcents=-30 --key k --hash " + charged.Hash + on},
		{0, "corrected", "ledger correct --amount usd_microcents=-30 --key k --hash " + charged.Hash + on},
		{5, "key_reused", "ledger correct --amount usd_microcents=-31 --key k --hash " + charged.Hash + on},
		{0, "refunded", "ledger refund --amount usd_microcents=20 --key r" + on},
		{0, "disputed", "ledger dispute --amount usd_microcents=50 --key d" + on},
		{0, "disputed", "ledger dispute --amount usd_microcents=50 --key d" + on},
	} {
		l.check(t, s.run)
	}
	corrected := s.lines(org, "corrected", 1)[0]
	line{
		0, "corrected", fmt.Sprint("ledger correct --amount usd_microcents=5 --key k2 --reason back --org ", org, " --seq ", corrected.Seq),
	}.check(t, s.run)
	s.lines(org, "corrected", 2)
	var body struct {
		Corrects   correctionLine
		Reason, By string
		Labels     map[string]string
		OnBehalfOf string `json:"on_behalf_of"`
	}
	if err := json.Unmarshal([]byte(corrected.Body), &body); err != nil || body.Corrects.Seq != charged.Seq || body.Corrects.Hash != charged.Hash ||
		body.Reason != "r" || body.By != "operator" || body.Labels["job"] != "7" || body.OnBehalfOf != "customer" {
		t.Errorf("%+v, %v: %s", body, err, corrected.Body)
	}
	equal(t, "the original", s.lines(org, "charged", 1)[0], charged)

	figures := "held 0 spent 55 withheld 0" // 100 - 30 - 20 + 5
	after := func(when string) {
		t.Helper()
		equal(t, when, a.figures(), figures)
		customer.shows("p usd_microcents none held 0 spent 55 withheld 0 of 2")
		s.lawful(org)
		line{0, "corrected", "ledger correct --amount usd_microcents=-30 --key k --hash " + charged.Hash + on}.check(t, s.run)
		line{5, "key_reused", "ledger refund --amount usd_microcents=21 --key r" + on}.check(t, s.run)
		line{0, "disputed", "ledger dispute --amount usd_microcents=50 --key d" + on}.check(t, s.run)
		equal(t, when+", repeated", a.figures(), figures)
	}
	after("before the rebuild")
	s.must("rebuild", "--org", org)
	after("after the rebuild")
	s.lines(org, "disputed", 1)
}

// TestCorrectionIsTheOperators: an org's admin has no such verb.
func TestCorrectionIsTheOperators(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	a := s.agent(org, "p")
	a.tells("charged", "charge", "c", object{"actual": usd(100)})
	s.lines(org, "charged", 1)
	added := s.must("admin", "add", "--org", org, "--name", "ada", "--role", "admin")
	doc, code, text := command(t, []string{"TALLY_URL=" + s.address.NATS, fmt.Sprint("TALLY_TOKEN=", added["token"])},
		strings.Fields("ledger refund --amount usd_microcents=1 --reason r --seq 1 -o json --timeout 3s --org "+org)...)
	if code == 0 || told(doc) == "refunded" {
		t.Errorf("an admin refunds: exit %d %s", code, text)
	}
	equal(t, "figures", a.figures(), "held 0 spent 100 withheld 0")
}
