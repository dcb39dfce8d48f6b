package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"tallystick/pkg/events"
)

// drainTimeout is how long what is in flight may take when the load ends.
const drainTimeout = 5 * time.Second

// failuresMax ends a stream that gets nothing but errors.
const failuresMax = 1000

// doorStream is one agent's connection with some of the clients: each sends
// its next request when it has the answer to the last.
type doorStream struct {
	load  *load
	wire  *wire
	slots []slot
	busy  int // slots that wait for an answer

	inbox, decisions     []byte // subjects up to the last token
	reserve, settle      string // subjects
	reserveBody, actuals string
}

// slot is one client.
type slot struct {
	key      []byte // its current idempotency key; the last 16 bytes count
	reply    string
	sent     time.Time
	settling bool
	busy     bool
}

func (l *load) doorStreams() ([]stream, error) {
	var out []stream
	agents := l.spec.Agents[:min(len(l.spec.Agents), l.spec.Clients)]
	for i, a := range agents {
		w, err := dialWire(l.spec.NATSURL, a.Token)
		if err != nil {
			for _, s := range out {
				s.stop()
			}
			return nil, err
		}
		n := l.spec.Clients / len(agents)
		if i < l.spec.Clients%len(agents) {
			n++
		}
		out = append(out, l.doorStream(w, a.ID, i, n))
	}
	return out, nil
}

func (l *load) doorStream(w *wire, agent string, index, clients int) *doorStream {
	subject := events.Rpc
	if l.spec.Kind == loadDurable {
		subject = events.Cmd
	}
	org := l.spec.Org
	inbox := "_INBOX." + agent + ".b."
	anyDecision := events.Decision(org, agent, "*")
	s := &doorStream{
		load: l, wire: w, slots: make([]slot, clients),
		inbox: []byte(inbox), decisions: []byte(anyDecision[:len(anyDecision)-1]),
		reserve: subject(org, agent, events.VerbReserve), settle: subject(org, agent, events.VerbSettle),
		reserveBody: fmt.Sprintf(`{"amounts":{%q:%d}}`, benchUnit, benchAmount),
		actuals:     fmt.Sprintf(`","actual":{%q:%d},"status":"success"}`, benchUnit, benchSpent),
	}
	for i := range s.slots {
		s.slots[i] = slot{key: fmt.Appendf(nil, "%08x-%04d-%04d-%016d", l.spec.Run, index, i, 0), reply: inbox + strconv.Itoa(i)}
	}
	w.subscribe(inbox+"*", 1)
	if l.spec.Kind == loadDurable {
		w.subscribe(anyDecision, 2)
	}
	return s
}

// stop lets what is in flight end, and then the connection.
func (s *doorStream) stop() { _ = s.wire.conn.SetDeadline(time.Now().Add(drainTimeout)) }

func (s *doorStream) run(m *meter) (err error) {
	defer func() { err = errors.Join(err, s.wire.conn.Close()) }()
	for i := range s.slots {
		s.begin(&s.slots[i])
	}
	for s.busy > 0 {
		msg, err := s.wire.next()
		if err != nil {
			if s.load.stopping.Load() && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)) {
				return nil
			}
			return err
		}
		if err := s.take(m, msg); err != nil {
			return err
		}
	}
	return nil
}

// begin sends a client's next reserve, under a key never used before.
func (s *doorStream) begin(c *slot) {
	if !s.load.take() {
		return
	}
	for i := len(c.key) - 1; ; i-- {
		if c.key[i] != '9' {
			c.key[i]++
			break
		}
		c.key[i] = '0'
	}
	c.busy, c.settling, c.sent = true, false, time.Now()
	s.busy++
	s.wire.publish(s.reserve, c.reply, string(c.key), []byte(s.reserveBody))
}

func (s *doorStream) end(c *slot) {
	c.busy = false
	s.busy--
}

// slotOf finds whose answer a message is: an answer by its reply subject, a
// decision by the key it names.
func (s *doorStream) slotOf(m message) *slot {
	text, decision := bytes.CutPrefix(m.subject, s.inbox)
	var key []byte
	if !decision {
		if key = m.field(events.HeaderTallyKey); len(key) < 18 {
			return nil
		}
		text = key[14:18]
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 || n >= len(s.slots) || !s.slots[n].busy {
		return nil
	}
	if key != nil && !bytes.Equal(key, s.slots[n].key) {
		return nil
	}
	return &s.slots[n]
}

var (
	answerAccepted = []byte(`{"outcome":"accepted"`) //nolint:gochecknoglobals // constants
	answerAllowed  = []byte(`{"outcome":"allowed"`)  //nolint:gochecknoglobals // constants
	answerSettled  = []byte(`{"outcome":"settled"`)  //nolint:gochecknoglobals // constants
	answerDenied   = []byte(`{"outcome":"denied"`)   //nolint:gochecknoglobals // constants
	noWorker       = []byte("NATS/1.0 503")          //nolint:gochecknoglobals // constants
)

func (s *doorStream) take(m *meter, msg message) error {
	c := s.slotOf(msg)
	switch {
	case c == nil || bytes.HasPrefix(msg.body, answerAccepted):
		return nil
	case bytes.HasPrefix(msg.header, noWorker):
		return errors.New("no worker answers at the " + s.load.spec.Kind + " door")
	case bytes.HasPrefix(msg.body, answerAllowed) && s.load.spec.Lifecycle:
		c.settling = true
		body := append(append(append(make([]byte, 0, 128), `{"key":"`...), c.key...), s.actuals...)
		s.wire.publish(s.settle, c.reply, string(c.key), body)
		return nil
	case bytes.HasPrefix(msg.body, answerAllowed) || bytes.HasPrefix(msg.body, answerSettled):
		m.decided(time.Since(c.sent), true)
	case bytes.HasPrefix(msg.body, answerDenied):
		m.decided(time.Since(c.sent), false)
		if s.load.spec.Race {
			s.end(c)
			return nil
		}
	default:
		if failed, decided := m.fails(string(msg.body)); failed >= failuresMax && decided == 0 {
			return fmt.Errorf("nothing but errors: %s", msg.body)
		}
	}
	s.end(c)
	s.begin(c)
	return nil
}
