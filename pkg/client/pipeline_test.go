package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

const (
	pipelineID    = "5b1c4a2e-7d10-4f6b-9c3a-2f8e1d0b7a66"
	pipelineToken = "tly_pipeline"
	pipelineAck   = "$JS.ACK.DECISIONS." + org + "_" + pipelineID + ".1.1.1.1.0"
	pipelineNext  = "$JS.API.CONSUMER.MSG.NEXT.DECISIONS." + org + "_" + pipelineID
)

// pipelineDoor gives the pipeline's token its rights, and the broker all.
type pipelineDoor struct{ srv *server.Server }

func (d *pipelineDoor) Check(c server.ClientAuthentication) bool {
	user := &server.User{Username: c.GetOpts().Token, Account: d.srv.GlobalAccount()}
	if c.GetOpts().Token == pipelineToken {
		sum := sha256.Sum256([]byte(pipelineToken))
		user.Permissions = &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				pipelineNext, "$JS.ACK.DECISIONS." + org + "_" + pipelineID + ".>", "$SYS.REQ.USER.INFO",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				events.InboxPrefix(pipelineID) + ".>", events.InboxPrefix(hex.EncodeToString(sum[:16])) + ".>",
			}},
		}
	}
	c.RegisterUser(user)
	return true
}

// pipelined is a pipeline whose consumer a test plays.
func pipelined(t *testing.T) (*client.Pipeline, *nats.Conn) {
	t.Helper()
	d := &pipelineDoor{}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, CustomClientAuthentication: d})
	if err != nil {
		t.Fatal(err)
	}
	d.srv = srv
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	broker, err := nats.Connect(srv.ClientURL(), nats.Token("broker"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	p, err := client.ConnectPipeline(t.Context(), client.Config{
		URL: srv.ClientURL(), Token: pipelineToken, Timeout: 200 * time.Millisecond, Attempts: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, broker
}

func kept(inbox, reply, key, body string) *nats.Msg {
	return &nats.Msg{
		Subject: inbox, Reply: reply, Data: []byte(body),
		Header: nats.Header{events.HeaderTallyKey: []string{key}, events.HeaderVerb: []string{"reserve"}},
	}
}

// What nobody answers is unavailable, and ends with the context too.
func TestPipelineOutOfReach(t *testing.T) {
	t.Parallel()
	p, _ := pipelined(t)
	if p.Org() != org {
		t.Errorf("org %q", p.Org())
	}
	_, err := p.Next(t.Context())
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeUnavailable || !e.Retryable {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no time: %v", err)
	}
	if _, err := p.Fetch(t.Context(), 0); err == nil {
		t.Error("none were asked for, and given")
	}
}

// It asks for what is there, then waits for what comes, then asks again; what
// does not come from its own consumer is dropped.
func TestPipelineAsksUntilThereIsSomething(t *testing.T) {
	t.Parallel()
	p, broker := pipelined(t)
	var mu sync.Mutex
	var asked []string
	_, err := broker.Subscribe(pipelineNext, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, string(m.Data))
		switch len(asked) {
		case 1:
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": []string{"404"}}})
		case 2:
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": []string{"408"}}})
		default:
			// Without a consumer in between a message's subject is the inbox it
			// came to: it is nobody's decision.
			_ = broker.PublishMsg(kept(m.Reply, pipelineAck, "k", `{"outcome":"allowed"}`))
			_ = broker.PublishMsg(kept(m.Reply, "", "k", `{"outcome":"allowed"}`))
		}
	})
	if err == nil {
		err = broker.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if d, err := p.Fetch(ctx, 7); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("somebody's words taken for a decision: %+v, %v", d, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) < 3 || !strings.Contains(asked[0], `"batch":7,"no_wait":true`) || !strings.Contains(asked[1], `"batch":1,"expires":5000000000`) {
		t.Errorf("asked %q", asked)
	}
}

func TestPipelineConfig(t *testing.T) {
	t.Parallel()
	_, broker := pipelined(t)
	url := broker.ConnectedUrl()
	for name, cfg := range map[string]client.Config{
		"no token":   {URL: url},
		"an agent's": {URL: url, Token: "broker"},
		"an agent":   {URL: url, Token: pipelineToken, Org: org, Agent: agent},
	} {
		if p, err := client.ConnectPipeline(t.Context(), cfg); err == nil {
			p.Close()
			t.Errorf("%s: connected", name)
		}
	}
}
