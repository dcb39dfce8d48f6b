package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health is what the probes report. Live needs no dependency; ready needs all.
type Health struct {
	checks map[string]func(context.Context) error
	drains atomic.Bool
}

// NewHealth starts with no checks.
func NewHealth() *Health { return &Health{checks: map[string]func(context.Context) error{}} }

// Add registers a check under a name, before the server starts.
func (h *Health) Add(name string, check func(context.Context) error) { h.checks[name] = check }

// Drain makes readiness fail from now on, so that a balancer looks elsewhere.
func (h *Health) Drain() { h.drains.Store(true) }

// Ready runs every check and returns what failed, by name.
func (h *Health) Ready(ctx context.Context) map[string]string {
	bad := map[string]string{}
	if h.drains.Load() {
		bad["process"] = "draining"
	}
	for name, check := range h.checks {
		if err := check(ctx); err != nil {
			bad[name] = err.Error()
		}
	}
	return bad
}

// ServeHTTP answers /readyz.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	bad := h.Ready(ctx)
	if len(bad) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A probe that hung up is nobody's error.
	_ = json.NewEncoder(w).Encode(map[string]any{"ready": len(bad) == 0, "problems": bad})
}

// HTTPServer serves /healthz, /readyz and /metrics.
type HTTPServer struct {
	srv  *http.Server
	addr string
	done chan error
}

// ServeHTTP listens at addr; port 0 picks a free one.
func ServeHTTP(addr string, h *Health, metrics prometheus.Gatherer) (*HTTPServer, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("HTTP: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", h)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	s := &HTTPServer{
		srv:  &http.Server{Handler: mux, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: time.Minute},
		addr: ln.Addr().String(),
		done: make(chan error, 1),
	}
	go func() { s.done <- s.srv.Serve(ln) }()
	return s, nil
}

// Addr is where the server listens.
func (s *HTTPServer) Addr() string { return s.addr }

// Close stops the server and waits for it.
func (s *HTTPServer) Close() error {
	err := s.srv.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
