package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// wire speaks the NATS protocol on one connection, from one goroutine: what is
// read from the socket at once is answered with one write, so that the load
// generator takes as little of the machine as it can.
type wire struct {
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	payload []byte
}

const (
	wireBuffer  = 256 << 10
	wireTimeout = 10 * time.Second
	payloadMax  = 1 << 20
)

// message is valid until the next call.
type message struct {
	subject []byte
	header  []byte // with its status line; nil for none
	body    []byte
}

func dialWire(natsURL, token string) (*wire, error) {
	u, err := url.Parse(natsURL)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, wireTimeout)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, wireBuffer)}
	if err := w.signIn(token); err != nil {
		return nil, errors.Join(fmt.Errorf("sign in at %s: %w", u.Host, err), conn.Close())
	}
	return w, nil
}

func (w *wire) signIn(token string) error {
	if err := w.conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		return err
	}
	connect, err := json.Marshal(map[string]any{
		"auth_token": token, "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
		"protocol": 1, "lang": "go", "version": "1", "name": "tallystick-bench",
	})
	if err != nil {
		return err
	}
	if line, err := w.in.ReadSlice('\n'); err != nil || !bytes.HasPrefix(line, []byte("INFO ")) {
		return fmt.Errorf("greeting %.80q: %w", line, err)
	}
	w.out = append(append(append(w.out, "CONNECT "...), connect...), "\r\nPING\r\n"...)
	if err := w.flush(); err != nil {
		return err
	}
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("PONG")):
			return w.conn.SetDeadline(time.Time{})
		case bytes.HasPrefix(line, []byte("-ERR")):
			return errors.New(strings.TrimSpace(string(line)))
		}
	}
}

func (w *wire) subscribe(subject string, id int) {
	w.out = fmt.Appendf(w.out, "SUB %s %d\r\n", subject, id)
}

// publish appends a message with an idempotency key.
func (w *wire) publish(subject, reply, key string, body []byte) {
	const before, after = "NATS/1.0\r\nNats-Msg-Id: ", "\r\n\r\n"
	header := len(before) + len(key) + len(after)
	w.out = append(append(w.out, "HPUB "...), subject...)
	w.out = append(append(w.out, ' '), reply...)
	w.out = strconv.AppendInt(append(w.out, ' '), int64(header), 10)
	w.out = strconv.AppendInt(append(w.out, ' '), int64(header+len(body)), 10)
	w.out = append(append(append(append(w.out, "\r\n"...), before...), key...), after...)
	w.out = append(append(w.out, body...), "\r\n"...)
}

func (w *wire) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	return err
}

// next returns the next message. Before it waits it sends what was published.
func (w *wire) next() (message, error) {
	for {
		if w.in.Buffered() == 0 {
			if err := w.flush(); err != nil {
				return message{}, err
			}
		}
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return message{}, err
		}
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")):
			return w.message(line[4:], false)
		case bytes.HasPrefix(line, []byte("HMSG ")):
			return w.message(line[5:], true)
		case bytes.HasPrefix(line, []byte("PING")):
			w.out = append(w.out, "PONG\r\n"...)
		case bytes.HasPrefix(line, []byte("-ERR")):
			return message{}, errors.New(strings.TrimSpace(string(line)))
		}
	}
}

// message reads what a MSG or HMSG line announces.
func (w *wire) message(line []byte, headed bool) (message, error) {
	words := bytes.Fields(line)
	sizes := 1
	if headed {
		sizes = 2
	}
	if len(words) < 2+sizes {
		return message{}, fmt.Errorf("the server said %.80q", line)
	}
	total, err := strconv.Atoi(string(words[len(words)-1]))
	head := 0
	if err == nil && headed {
		head, err = strconv.Atoi(string(words[len(words)-2]))
	}
	if err != nil || total > payloadMax || head < 0 || head > total {
		return message{}, fmt.Errorf("the server said %.80q", line)
	}
	// The line lies in the reader's buffer, which the next read may move.
	w.payload = append(w.payload[:0], words[0]...)
	subject := len(w.payload)
	w.payload = append(w.payload, make([]byte, total+2)...)
	if _, err := io.ReadFull(w.in, w.payload[subject:]); err != nil {
		return message{}, err
	}
	m := message{subject: w.payload[:subject], body: w.payload[subject+head : subject+total]}
	if head > 0 {
		m.header = w.payload[subject : subject+head]
	}
	return m, nil
}

// field is one header line's value; nil where it is not there.
func (m message) field(name string) []byte {
	_, rest, ok := bytes.Cut(m.header, []byte("\r\n"+name+": "))
	if !ok {
		return nil
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return value
}
