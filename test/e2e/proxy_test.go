package e2e

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// proxy stands between a client and its server and can lose an answer: the
// server has given it, so the work is done, and the client never sees it.
type proxy struct {
	addr   string
	dial   func() (net.Conn, error)
	mu     sync.Mutex
	losses []*loss
	links  map[*link]bool
	closed bool // or cut off
	pumps  sync.WaitGroup
}

// loss waits for bytes of a request, then for bytes of the answer on the same
// connection, and cuts the connection before the answer is through.
type loss struct {
	request, answer []byte
	link            *link // where the request was seen
	happened        chan struct{}
}

type link struct{ client, server net.Conn }

func (l *link) cut() { _, _ = l.client.Close(), l.server.Close() }

// newProxy listens on a port of its own until the test ends.
func newProxy(t testing.TB, network, addr string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		addr: ln.Addr().String(), links: map[*link]bool{},
		dial: func() (net.Conn, error) { return net.Dial(network, addr) },
	}
	p.pumps.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.relay(c)
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.sever()
		p.pumps.Wait()
	})
	return p
}

// sever cuts every connection, also those to come.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
}

// lose loses one answer. An empty request is any; an empty answer is whatever
// comes next. The channel is closed when it has happened.
func (p *proxy) lose(request, answer string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &loss{request: []byte(request), answer: []byte(answer), happened: make(chan struct{})}
	p.losses = append(p.losses, l)
	return l.happened
}

func (p *proxy) relay(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client, server}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cut()
		return
	}
	p.links[l] = true
	p.pumps.Go(func() { p.pump(l, client, server, p.asked) })
	p.pumps.Go(func() { p.pump(l, server, client, p.answered) })
}

// pump copies one direction; see gives what of the next bytes to let through,
// and whether the connection lives on. What tests look for is short and written
// at once, so it is read at once.
func (p *proxy) pump(l *link, from, to net.Conn, see func(*link, []byte) ([]byte, bool)) {
	defer func() {
		l.cut()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		through, goOn := see(l, buf[:n])
		if _, err := to.Write(through); err != nil || !goOn {
			return
		}
	}
}

// asked notes on which connection a request went.
func (p *proxy) asked(l *link, data []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.losses {
		if x.link == nil && len(x.request) > 0 && bytes.Contains(data, x.request) {
			x.link = l
		}
	}
	return data, true
}

// answered lets nothing through from the line of a lost answer on. Lines before
// it in the same read are other messages, which nobody meant to lose.
func (p *proxy) answered(l *link, data []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	through := len(data)
	p.losses = slices.DeleteFunc(p.losses, func(x *loss) bool {
		at := bytes.Index(data, x.answer)
		if at < 0 || x.link != l && len(x.request) > 0 {
			return false
		}
		through = min(through, 1+bytes.LastIndexByte(data[:at], '\n'))
		close(x.happened)
		return true
	})
	return data[:through], through == len(data)
}

// A server may write several messages at once: only the one that is to be lost
// is lost, with what follows it.
func TestProxyLosesOneAnswer(t *testing.T) {
	t.Parallel()
	const before, lost = "MSG inbox 1 2\r\nok\r\n", "MSG decision.x 2 2\r\nno\r\n"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = c.Write([]byte(before + lost + before))
		}
	}()
	p := newProxy(t, "tcp", ln.Addr().String())
	happened := p.lose("", "decision.x")
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != before {
		t.Errorf("read %q, %v; want %q and the end", got, err, before)
	}
	within(t, "the loss", requestTimeout, happened)
}
