package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// dedupeMin is the shortest window a server takes. Tallystick's exactly-once
// does not rest on dedupe; EVENTS alone uses it, with the default.
const dedupeMin = 100 * time.Millisecond

// Bounds of COMMANDS: what is accepted and not yet done.
const (
	commandsMaxBytes = 2 << 30
	commandsMaxMsgs  = 2_000_000
	ackWait          = 5 * time.Second
)

// Bounds of DECISIONS, and of what one pipeline identity may have in hand.
const (
	decisionsMaxAge   = 24 * time.Hour
	decisionsMaxBytes = 1 << 30
	pipelineAckWait   = 30 * time.Second
	pipelineMaxAcks   = 1000
)

// Buckets lists the key-value buckets.
func Buckets() []string {
	return []string{
		events.BucketOrgs, events.BucketPools, events.BucketAgents, events.BucketPrincipals, events.BucketTokens, events.BucketAdmins,
		events.BucketMeta, events.BucketPipelines,
	}
}

// Streams are the streams of an installation.
func Streams(replicas int) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: events.StreamLedger, Description: "history: every effect, once, in order, hash-chained",
			Subjects: []string{events.AllLedger}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowAtomicPublish: true,
			Compression: jetstream.S2Compression, Duplicates: dedupeMin, Replicas: replicas,
		},
		{
			Name: events.StreamCommands, Description: "commands accepted and not yet decided",
			Subjects: []string{events.AllCommands}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			Discard: jetstream.DiscardNew, MaxBytes: commandsMaxBytes, MaxMsgs: commandsMaxMsgs, DenyDelete: true,
			AllowAtomicPublish: true, Duplicates: dedupeMin, Replicas: replicas,
		},
		{
			Name: events.StreamEvents, Description: "what happened, for whoever listens",
			Subjects: []string{events.AllEvents}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			MaxAge: 7 * 24 * time.Hour, MaxBytes: 1 << 30, Replicas: replicas,
		},
		{
			Name: events.StreamDeadLetters, Description: "commands that could not be decided, with the reason",
			Subjects: []string{events.AllDead}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			MaxAge: 30 * 24 * time.Hour, MaxBytes: 1 << 30, Replicas: replicas,
		},
		{
			Name: events.StreamDecisions, Description: "decisions of the durable door, for orgs with a pipeline",
			Subjects: []string{events.AllDecisions}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			Discard: jetstream.DiscardOld, MaxAge: decisionsMaxAge, MaxBytes: decisionsMaxBytes, DenyDelete: true, DenyPurge: true,
			AllowAtomicPublish: true, Duplicates: dedupeMin, Replicas: replicas,
		},
	}
}

// consumers are the durable consumers, by stream.
func consumers(replicas int) map[string][]jetstream.ConsumerConfig {
	commands := func(name string, verbs ...string) jetstream.ConsumerConfig {
		c := jetstream.ConsumerConfig{
			Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
			MaxAckPending: 65536, Replicas: replicas, DeliverPolicy: jetstream.DeliverAllPolicy,
		}
		for _, verb := range verbs {
			c.FilterSubjects = append(c.FilterSubjects, events.Command("*", "*", verb))
		}
		return c
	}
	return map[string][]jetstream.ConsumerConfig{
		events.StreamCommands: {
			commands(events.ConsumerReserver, events.VerbReserve, events.VerbExtend, events.VerbCharge),
			commands(events.ConsumerSettler, events.VerbSettle, events.VerbRelease),
		},
		events.StreamLedger: {{
			Durable: events.ConsumerExpiries, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
			MaxDeliver: -1, MaxAckPending: 1000, DeliverPolicy: jetstream.DeliverAllPolicy, Replicas: replicas,
			FilterSubject: events.Ledger("*", "expired"),
		}},
	}
}

// PipelineConsumer is the durable consumer of a pipeline identity: its org's
// decisions and nobody else's.
func PipelineConsumer(org, pipeline string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: events.PipelineConsumer(org, pipeline), FilterSubject: events.KeptDecisionsOf(org),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: pipelineAckWait, MaxDeliver: -1, MaxAckPending: pipelineMaxAcks,
		DeliverPolicy: jetstream.DeliverAllPolicy,
	}
}

// Ensure makes whatever is missing, as user setup. What exists is left as it
// is; a LEDGER that would forget or rewrite is refused.
func Ensure(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, cfg := range Streams(replicas) {
		if err := ensureStream(ctx, js, cfg); err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	for stream, all := range consumers(replicas) {
		for _, cfg := range all {
			if _, err := js.CreateOrUpdateConsumer(ctx, stream, cfg); err != nil {
				return fmt.Errorf("consumer %s of %s: %w", cfg.Durable, stream, err)
			}
		}
	}
	for _, bucket := range Buckets() {
		if err := ensureStream(ctx, js, bucketStream(bucket, replicas)); err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
	}
	for _, store := range ObjectStores() {
		if err := ensureStream(ctx, js, objectStream(store, replicas)); err != nil {
			return fmt.Errorf("object store %s: %w", store, err)
		}
	}
	return nil
}

// bucketStream is the stream under a bucket. Unlike one that a client makes it
// allows no direct get, so no read comes from a follower that lags.
func bucketStream(bucket string, replicas int) jetstream.StreamConfig {
	history := int64(1)
	if bucket == events.BucketPools || bucket == events.BucketPrincipals {
		history = 16 // for people who ask what a pool was yesterday, or who managed a principal
	}
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true,
		MaxMsgsPerSubject: history, Duplicates: dedupeMin, Replicas: replicas,
	}
}

func ensureStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if cfg.Name == events.StreamLedger {
			if err := neverHadOne(ctx, js); err != nil {
				return err
			}
		}
		_, err = js.CreateStream(ctx, cfg)
		return err
	}
	if err != nil || cfg.Name != events.StreamLedger {
		return err
	}
	return CheckLedger(stream.CachedInfo().Config)
}

// ErrLedgerGone: an installation that has orgs has no ledger any more. A fresh
// one in its place would hide the loss.
var ErrLedgerGone = errors.New("the ledger is gone, but orgs exist")

func neverHadOne(ctx context.Context, js jetstream.JetStream) error {
	orgs, err := js.Stream(ctx, "KV_"+events.BucketOrgs)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil && orgs.CachedInfo().State.Msgs > 0 {
		return ErrLedgerGone
	}
	return err
}

// CheckLedger refuses a configuration of LEDGER under which history could be
// lost or changed.
func CheckLedger(c jetstream.StreamConfig) error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.DenyDelete && c.DenyPurge, "messages can be deleted or purged")
	need(!c.AllowRollup && !c.AllowMsgTTL && !c.AllowMsgSchedules, "rollups, message TTLs or schedules are allowed")
	need(c.Retention == jetstream.LimitsPolicy && c.MaxAge == 0 && c.MaxMsgs <= 0 && c.MaxBytes <= 0 && c.MaxMsgsPerSubject <= 0,
		"a limit or a retention other than limits would drop entries")
	need(c.Storage == jetstream.FileStorage, "it is not stored in files")
	need(c.AllowAtomicPublish, "atomic batches are off")
	need(!c.AllowDirect && !c.MirrorDirect, "direct gets are allowed: a follower could answer with an old tail")
	need(len(c.Subjects) == 1 && c.Subjects[0] == events.AllLedger && c.SubjectTransform == nil && c.RePublish == nil && len(c.Sources) == 0,
		"its subjects or sources are not its own")
	need(c.Discard == jetstream.DiscardNew && c.PersistMode == jetstream.DefaultPersistMode && !c.NoAck, "writes may be lost unseen")
	need(c.Mirror == nil && !c.AllowMsgCounter && c.SubjectDeleteMarkerTTL == 0, "it is a mirror, counts, or sets delete markers")
	need(c.Duplicates <= dedupeMin, "the dedupe window is long enough to swallow an entry")
	need(!c.Sealed, "it is sealed")
	if len(errs) > 0 {
		return fmt.Errorf("the ledger's configuration has drifted: %w", errors.Join(errs...))
	}
	return nil
}
