package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
)

// TestPipelineExample: the example's stages, one of them killed with a job in
// hand, settle every job exactly once, and the ledger agrees.
func TestPipelineExample(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, built("pipeline"), "--data", s.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := regexp.MustCompile(`11 jobs settled exactly once, 1 denied; held 0, spent 1166 of 100000\. org (\S+)`).FindSubmatch(out)
	if said == nil || strings.Count(string(out), "working job-") != 12 || !strings.Contains(string(out), "work was killed") {
		t.Fatalf("it said:\n%s", out)
	}
	org := string(said[1])
	s.lawful(org)
	kinds := map[string]int{}
	for _, e := range s.entries(org) {
		kinds[e.Kind]++
	}
	if kinds["reserved"] != 11 || kinds["settled"] != 11 {
		t.Errorf("entries: %v", kinds)
	}
}

// pipe is a pipeline identity.
type pipe struct{ Pipeline, Org, Token, Consumer string }

func (s *system) pipe(org string) pipe {
	s.Helper()
	doc := s.must("pipeline", "create", "n", "--org", org)
	p := pipe{fmt.Sprint(doc["pipeline"]), fmt.Sprint(doc["org"]), fmt.Sprint(doc["token"]), fmt.Sprint(doc["consumer"])}
	if p.Org != org || len(p.Token) < 40 || p.Consumer != org+"_"+p.Pipeline {
		s.Fatalf("pipeline create: %v", doc)
	}
	return p
}

func (s *system) open(p pipe) *client.Pipeline {
	s.Helper()
	c, err := client.ConnectPipeline(s.Context(), client.Config{URL: s.address.NATS, Token: p.Token})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// heard are the decisions that are there now, acknowledged.
func (s *system) heard(c *client.Pipeline, n int) map[string]string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	got := map[string]string{}
	for len(got) < n {
		all, err := c.Fetch(ctx, 10)
		if err != nil {
			s.Fatalf("after %v: %v", got, err)
		}
		for _, d := range all {
			got[d.Verb+" "+d.Key] = strings.TrimSpace(d.Agent + " " + d.Outcome + " " + d.Reason)
			if d.Err != nil {
				got[d.Verb+" "+d.Key] = d.Agent + " " + string(d.Err.Code)
			}
			if err := d.Ack(ctx); err != nil {
				s.Errorf("acknowledge %s: %v", d.Key, err)
			}
		}
	}
	return got
}

// kept waits until the pipeline of an org is known to the workers, which is a
// matter of a moment: until then nobody was told of it.
func (a *agent) kept(c *client.Pipeline) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), 10*time.Second)
	defer cancel()
	for n := 0; ; n++ {
		a.durable("release", fmt.Sprint("probe", n), object{"key": "never reserved"})
		short, stop := context.WithTimeout(ctx, time.Second)
		d, err := c.Next(short)
		stop()
		if err == nil {
			if err := d.Ack(ctx); err != nil {
				a.Fatal(err)
			}
			return
		}
		if ctx.Err() != nil {
			a.Fatal("the workers never learned of the pipeline")
		}
	}
}

// TestPipelineHearsWhatItMissed: decisions made while nobody listened, by both
// workers, and across a kill of everything; and nothing of another org.
func TestPipelineHearsWhatItMissed(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, foreign := s.org(), s.org()
	s.pool(mine, "p", 1000)
	s.pool(foreign, "p", 1000)
	me, stranger := s.agent(mine, "p"), s.agent(foreign, "p")
	p := s.pipe(mine)
	s.pipe(foreign)
	me.kept(s.open(p))
	me.durable("reserve", "k1", reserve(10))
	me.durable("reserve", "big", reserve(5000))
	me.durable("settle", "s1", object{"key": "k1", "actual": usd(4)})
	me.durable("settle", "s2", object{"key": "k1", "actual": usd(4)})
	stranger.durable("reserve", "theirs", reserve(10))
	s.signal(syscall.SIGKILL)
	s.up()
	got := s.heard(s.open(p), 4)
	equal(t, "heard", got, map[string]string{
		"reserve k1": me.Agent + " allowed", "reserve big": me.Agent + " denied budget_exceeded",
		"settle s1": me.Agent + " settled", "settle s2": me.Agent + " already_settled",
	})
}

// TestPipelineGivesBack: a decision that was given back comes again after its
// delay, and once acknowledged never.
func TestPipelineGivesBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	me, c := s.agent(org, "p"), s.open(s.pipe(org))
	me.kept(c)
	me.durable("reserve", "k", reserve(10))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 2 {
		d, err := c.Next(ctx)
		if err != nil || d.Key != "k" || d.Org != org {
			t.Fatalf("%+v, %v", d, err)
		}
		if i == 0 {
			err = d.Nak(ctx, 300*time.Millisecond)
		} else {
			err = d.Ack(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	short, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if d, err := c.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acknowledged, and again: %+v, %v", d, err)
	}
}

// TestPipelineIsKeptToItsOwn: what the identity of one org can do to another's
// consumer, to streams, and to anything else.
func TestPipelineIsKeptToItsOwn(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, foreign := s.org(), s.org()
	s.pool(foreign, "p", 1000)
	a, b := s.pipe(mine), s.pipe(foreign)
	stranger := s.agent(foreign, "p")
	theirs := s.open(b)
	stranger.kept(theirs)
	stranger.durable("reserve", "k", reserve(10))

	violations := make(chan string, 64)
	nc, err := nats.Connect(s.address.NATS, nats.Token(a.Token), nats.CustomInboxPrefix("_INBOX."+a.Pipeline),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{
		"$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + b.Consumer, "$JS.API.CONSUMER.INFO.DECISIONS." + b.Consumer,
		"$JS.ACK.DECISIONS." + b.Consumer + ".1.1.1.1.0", "$JS.API.CONSUMER.DELETE.DECISIONS." + b.Consumer,
		"$JS.API.CONSUMER.CREATE.DECISIONS.mine", "$JS.API.CONSUMER.CREATE.DECISIONS." + a.Consumer, "$JS.API.CONSUMER.CREATE.LEDGER.mine",
		"$JS.API.STREAM.MSG.GET.LEDGER", "$JS.API.STREAM.MSG.GET.DECISIONS", "$JS.API.STREAM.INFO.LEDGER", "$JS.API.STREAM.PURGE.DECISIONS",
		"tally.v1." + foreign + "." + stranger.Agent + ".rpc.reserve", "tally.v1." + foreign + "." + stranger.Agent + ".cmd.reserve",
		"tally.v1.decision." + foreign + "." + stranger.Agent + "." + token("reserve", "k"), "tally.v1.admin.pool_set",
		"tally.v1.ledger." + mine + ".reserved", "_INBOX." + b.Pipeline + ".x",
	} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		refused(t, "a pipeline", violations, subject)
	}
	for _, subject := range []string{">", "tally.v1.decision.>", "tally.v1.>", "$JS.>", "_INBOX.>", "_INBOX." + b.Pipeline + ".>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		refused(t, "a pipeline", violations, subject)
	}
	if got := s.heard(theirs, 1)["reserve k"]; got != stranger.Agent+" allowed" {
		t.Errorf("the other org hears %q", got)
	}
	s.lawful(foreign)
}

// TestPipelineEnds: a removed identity has no token and no consumer, and with
// the last one an org's decisions are kept no more.
func TestPipelineEnds(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	s.pool(org, "p", 1000)
	me := s.agent(org, "p")
	p := s.pipe(org)
	c := s.open(p)
	me.kept(c)
	if doc := s.must("pipeline", "list", "--org", org); len(doc["pipelines"].([]any)) != 1 || strings.Contains(fmt.Sprint(doc), p.Token) {
		t.Errorf("list: %v", doc)
	}
	s.must("pipeline", "remove", p.Pipeline, "--org", org)
	if doc := s.must("pipeline", "list", "--org", org); len(doc["pipelines"].([]any)) != 0 {
		t.Errorf("list: %v", doc)
	}
	var refused *client.AuthError
	if _, err := client.ConnectPipeline(t.Context(), client.Config{URL: s.address.NATS, Token: p.Token}); !errors.As(err, &refused) {
		t.Errorf("the token of a removed identity: %v", err)
	}
	me.durable("reserve", "after", reserve(10))
	short, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if d, err := c.Next(short); err == nil {
		t.Errorf("a removed identity hears %+v", d)
	}
	for _, l := range []line{
		{3, "not_found", "pipeline remove " + p.Pipeline + " --org " + org},
		{3, "not_found", "pipeline remove " + uuid.NewString() + " --org " + org},
		{3, "not_found", "pipeline list --org nobody"},
		{3, "not_found", "pipeline create n --org nobody"},
		{2, "", "pipeline create --org " + org},
	} {
		l.check(t, s.run)
	}
	// An agent's token is no pipeline's, and the other way round.
	if _, err := client.ConnectPipeline(t.Context(), client.Config{URL: s.address.NATS, Token: me.Token}); err == nil {
		t.Error("an agent's token reads decisions")
	}
	if _, err := client.Connect(t.Context(), client.Config{URL: s.address.NATS, Token: s.pipe(org).Token}); err == nil {
		t.Error("a pipeline's token is taken for an agent's")
	}
}

// testPipeline: the written nats.conf lets decisions across its border, from
// workers that run apart.
func (p *apart) testPipeline() {
	org := p.org()
	p.pool(org, "p", 1000)
	me, c := p.agent(org, "p"), p.open(p.pipe(org))
	me.kept(c)
	me.durable("reserve", "k", reserve(10))
	me.durable("settle", "s", object{"key": "k", "actual": usd(4)})
	equal(p.TB, "heard", p.heard(c, 2), map[string]string{"reserve k": me.Agent + " allowed", "settle s": me.Agent + " settled"})
	p.lawful(org)
}
