package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"tallystick/pkg/events"
)

const (
	pipelineA = "0192aaaa-0000-7000-8000-000000000001"
	pipelineB = "0192bbbb-0000-7000-8000-000000000002"
	someAgent = "0192cccc-0000-7000-8000-000000000003"
)

// callout lets every token in as the pipeline identity "<org> <id>" that it is.
func (in installation) callout(t *testing.T) {
	t.Helper()
	issuer, err := nkeys.FromSeed([]byte(in.set[Registrar].Callout.IssuerSeed))
	if err != nil {
		t.Fatal(err)
	}
	auth := in.connect(t, Registrar, accountAuth)
	_, err = auth.QueueSubscribe("$SYS.REQ.USER.AUTH", Registrar, func(m *nats.Msg) {
		request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
		if err != nil {
			t.Error(err)
			return
		}
		org, id, _ := strings.Cut(request.ConnectOptions.Token, " ")
		rights := PipelineRights(org, id, "bootstrap")
		user := jwt.NewUserClaims(request.UserNkey)
		user.Name, user.Audience = org, AccountPipelines
		user.Permissions.Pub.Allow.Add(rights.Publish...)
		user.Permissions.Sub.Allow.Add(rights.Subscribe...)
		answer := jwt.NewAuthorizationResponseClaims(request.UserNkey)
		answer.Audience = request.Server.ID
		if answer.Jwt, err = user.Encode(issuer); err != nil {
			t.Error(err)
		}
		signed, err := answer.Encode(issuer)
		if err == nil {
			err = m.Respond([]byte(signed))
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = auth.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (in installation) pipeline(t *testing.T, org, id string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(in.url, nats.Token(org+" "+id), nats.CustomInboxPrefix(events.InboxPrefix(id)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	return nc
}

// piped is an installation with two orgs that have a pipeline each, and a few
// decisions of each.
func piped(t *testing.T) (in installation, setup jetstream.JetStream) {
	t.Helper()
	in = install(t, false)
	setup = in.jetStream(t, Setup)
	if err := Ensure(brief(t), setup, 1); err != nil {
		t.Fatal(err)
	}
	in.callout(t)
	registrar, reserver := in.jetStream(t, Registrar), in.jetStream(t, Reserver)
	for org, id := range map[string]string{"acme": pipelineA, "rival": pipelineB} {
		if _, err := registrar.CreateOrUpdateConsumer(brief(t), events.StreamDecisions, PipelineConsumer(org, id)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			subject := events.KeptDecision(org, someAgent, events.DecisionToken("reserve", fmt.Sprint(i)))
			if _, err := reserver.Publish(brief(t), subject, []byte(org)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return in, setup
}

func pending(t *testing.T, js jetstream.JetStream, consumer string) string {
	t.Helper()
	c, err := js.Consumer(brief(t), events.StreamDecisions, consumer)
	if err != nil {
		t.Fatal(err)
	}
	info := c.CachedInfo()
	return fmt.Sprintf("%d waiting, %d in hand, floor %d", info.NumPending, info.NumAckPending, info.AckFloor.Consumer)
}

// fetch asks a pipeline's consumer for messages and gives those that came
// before the answer that there are no more.
func fetch(t *testing.T, nc *nats.Conn, consumer string, n int) []*nats.Msg {
	t.Helper()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ask := fmt.Sprintf(`{"batch":%d,"no_wait":true}`, n)
	if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.DECISIONS."+consumer, sub.Subject, []byte(ask)); err != nil {
		t.Fatal(err)
	}
	var got []*nats.Msg
	for len(got) < n {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Status") != "" {
			break
		}
		got = append(got, m)
	}
	return got
}

// A pipeline identity fetches and acknowledges across the border of accounts.
func TestPipelineFetchesItsOrgsDecisions(t *testing.T) {
	t.Parallel()
	in, setup := piped(t)
	name := events.PipelineConsumer("acme", pipelineA)
	nc := in.pipeline(t, "acme", pipelineA)
	got := fetch(t, nc, name, 9)
	if len(got) != 3 {
		t.Errorf("%d fetched", len(got))
	}
	for _, m := range got {
		if org, agent, _, ok := events.ParseKeptDecision(m.Subject); !ok || org != "acme" || agent != someAgent || string(m.Data) != "acme" {
			t.Errorf("%s: %s", m.Subject, m.Data)
		}
		if _, err := nc.Request(m.Reply, []byte("+ACK"), 5*time.Second); err != nil {
			t.Errorf("acknowledge: %v", err)
		}
	}
	if got := pending(t, setup, name); got != "0 waiting, 0 in hand, floor 3" {
		t.Error(got)
	}
	if got := pending(t, setup, events.PipelineConsumer("rival", pipelineB)); got != "3 waiting, 0 in hand, floor 0" {
		t.Errorf("another org: %s", got)
	}
}

// Whatever reply a pipeline chooses, the answer does nothing in BROKER, and
// nothing at another pipeline's consumer.
func TestPipelineReplyInjectsNothing(t *testing.T) {
	t.Parallel()
	in, setup := piped(t)
	mine, theirs := events.PipelineConsumer("acme", pipelineA), events.PipelineConsumer("rival", pipelineB)
	// Something is in the rival's hand, to be acknowledged by a forger.
	held := fetch(t, in.pipeline(t, "rival", pipelineB), theirs, 1)[0]
	for _, reply := range []string{
		"tally.v1.ledger.acme.reserved", "tally.v1.command." + "acme." + someAgent + ".reserve", "tally.v1.decision.rival." + someAgent + ".x",
		"$KV.tally_tokens.x", "$JS.API.STREAM.DELETE.LEDGER", "$JS.API.STREAM.PURGE.DECISIONS", "$JS.API.CONSUMER.DELETE.DECISIONS." + theirs,
		"$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + theirs, held.Reply, "_R_.x.y",
	} {
		for _, ask := range []string{`{"batch":1,"no_wait":true}`, `{"batch":5,"no_wait":true}`, "bad"} {
			nc := in.pipeline(t, "acme", pipelineA)
			msg := &nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + mine, Reply: reply, Data: []byte(ask)}
			if err := nc.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			msg = &nats.Msg{Subject: "$JS.ACK.DECISIONS." + mine + ".1.1.1.1.0", Reply: reply, Data: []byte("+NXT " + ask)}
			if err := nc.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// An honest request is answered after all of the above have been.
	fetch(t, in.pipeline(t, "acme", pipelineA), mine, 9)
	if got := pending(t, setup, theirs); got != "2 waiting, 1 in hand, floor 0" {
		t.Errorf("the rival's consumer: %s", got)
	}
	for stream, want := range map[string]uint64{
		events.StreamLedger: 0, events.StreamCommands: 0, "KV_" + events.BucketTokens: 0, events.StreamDecisions: 6,
	} {
		s, err := setup.Stream(brief(t), stream)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().State.LastSeq; got != want {
			t.Errorf("%s: last %d, want %d", stream, got, want)
		}
	}
}

// The one place where an answer may go astray is another pipeline's inbox. What
// arrives there says whose it is.
func TestPipelineAnswerSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	in, _ := piped(t)
	mine, rival := in.pipeline(t, "acme", pipelineA), in.pipeline(t, "rival", pipelineB)
	sub, err := rival.SubscribeSync("_INBOX." + pipelineB + ".x")
	if err == nil {
		err = rival.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	next := "$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + events.PipelineConsumer("acme", pipelineA)
	if err := mine.PublishRequest(next, sub.Subject, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if org, _, _, _ := events.ParseKeptDecision(m.Subject); org != "acme" {
		t.Errorf("%s", m.Subject)
	}
}

// A pipeline identity has its consumer and its inbox, and nothing else.
func TestPipelineRights(t *testing.T) {
	t.Parallel()
	in, _ := piped(t)
	rights := PipelineRights("acme", pipelineA, "bootstrap")
	publish, subscribe := EverySubject()
	theirs := events.PipelineConsumer("rival", pipelineB)
	for _, p := range rights.Publish {
		publish = append(publish, Concrete(p))
	}
	publish = append(publish, "$JS.API.CONSUMER.MSG.NEXT.DECISIONS."+theirs, "$JS.API.CONSUMER.INFO.DECISIONS."+theirs, "$JS.API.CONSUMER.INFO.DECISIONS."+events.PipelineConsumer("acme", pipelineA),
		"$JS.ACK.DECISIONS."+theirs+".1.1.1.1.0", "$JS.API.CONSUMER.CREATE.DECISIONS.x", "$JS.API.STREAM.MSG.GET.LEDGER",
		"$JS.API.STREAM.MSG.GET.DECISIONS", "$JS.API.CONSUMER.CREATE.LEDGER.x", "$JS.API.INFO")
	subscribe = append(subscribe, "_INBOX."+pipelineB+".>", "_INBOX."+pipelineA+".>", "tally.v1.decision.>")
	for _, s := range publish {
		if got, want := refuses(t, in.pipeline(t, "acme", pipelineA), false, s), !rights.MayPublish(s); got != want {
			t.Errorf("publish %s: refused %v, want %v", s, got, want)
		}
	}
	for _, s := range subscribe {
		if got, want := refuses(t, in.pipeline(t, "acme", pipelineA), true, s), !rights.MaySubscribe(s); got != want {
			t.Errorf("subscribe %s: refused %v, want %v", s, got, want)
		}
	}
}
