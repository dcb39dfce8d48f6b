package worker

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/pkg/events"
)

// Config tells a Worker who it is and what it is connected to. Zero values of
// the bounds mean their defaults.
type Config struct {
	Name string // the role: queue group of both doors, label of the metrics

	// Agents is the connection in AGENTS; it must not buffer while it is
	// disconnected (nats.ReconnectBufSize(-1)), because a buffered decision is
	// no decision. JetStream is the broker's side.
	Agents    *nats.Conn
	JetStream jetstream.JetStream

	Stream   string // COMMANDS; default events.StreamCommands
	Consumer string // the role's durable consumer on it

	Verbs       []string // served at both doors
	DirectVerbs []string // served at the direct door only
	Handler     Handler

	// KeepDecisions says whether an org's decisions are kept in DECISIONS for
	// who reads them later; nil: nobody's are.
	KeepDecisions func(org string) bool

	// PurgeConsumers, set in one role, are the consumers whose lowest floor
	// COMMANDS is purged up to.
	PurgeConsumers []string

	// BatchMax and InFlight: several middling pipelines keep Redis busy while
	// it waits for its disk; few large ones leave it idle, many starve the scribe.
	BatchMax       int // requests per call of the Handler; default 64
	InFlight       int // batches at once, per door; default 4
	QueueMax       int // requests waiting at the direct door; default 16,384
	QueueMaxBytes  int // and their bodies; default 64 MiB
	AgentMax       int // outstanding per agent and door; default 1,024
	IntakeMax      int // commands per stored batch; default 1,000
	IntakeInFlight int // stored batches at once; each costs the server a file; default 1
	ConsumeMax     int // commands fetched ahead; default 1,024

	HandleTimeout  time.Duration // for one call of the Handler; default 5 s
	PublishTimeout time.Duration // for one store, flush or dead letter; default 5 s
	DrainTimeout   time.Duration // for each step of a drain; default 10 s
	FloorEvery     time.Duration // how often the consumer's floor is read; default 200 ms
	PurgeEvery     time.Duration // default 10 s
	DenialsEvery   time.Duration // how often denials are told; default 1 min

	Now     func() time.Time // default time.Now
	Metrics *Metrics         // default: a fresh one, unregistered
	Log     zerolog.Logger
	Signals *Signals // tests only
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("worker: "+what))
		}
	}
	need(c.Name != "", "Name is empty")
	need(c.Agents != nil, "Agents connection is missing")
	need(c.Handler != nil, "Handler is missing")
	need(len(c.Verbs)+len(c.DirectVerbs) > 0, "no verbs to serve")
	need(len(c.Verbs) == 0 || c.JetStream != nil, "JetStream is missing")
	need(len(c.Verbs) == 0 || c.Consumer != "", "Consumer is empty")
	need(c.IntakeMax <= maxAtomicBatch, "IntakeMax is above what the server takes in one batch")
	return errors.Join(errs...)
}

// maxAtomicBatch is the server's limit on one atomic batch.
const maxAtomicBatch = 1000

func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&c.BatchMax, 64)
	orInt(&c.InFlight, 4)
	orInt(&c.QueueMax, 16384)
	orInt(&c.QueueMaxBytes, 64<<20)
	orInt(&c.AgentMax, 1024)
	orInt(&c.IntakeMax, maxAtomicBatch)
	orInt(&c.IntakeInFlight, 1)
	orInt(&c.ConsumeMax, 1024)
	orTime(&c.HandleTimeout, 5*time.Second)
	orTime(&c.PublishTimeout, 5*time.Second)
	orTime(&c.DrainTimeout, 10*time.Second)
	orTime(&c.FloorEvery, 200*time.Millisecond)
	orTime(&c.PurgeEvery, 10*time.Second)
	orTime(&c.DenialsEvery, time.Minute)
	if c.Stream == "" {
		c.Stream = events.StreamCommands
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(c.Name)
	}
	return c
}
