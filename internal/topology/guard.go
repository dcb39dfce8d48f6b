package topology

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// CheckKept compares COMMANDS and the buckets, as the server has them now, with
// what was set up. drift tells where commands or structure could be lost or
// changed; err that the server could not be asked.
func CheckKept(ctx context.Context, js jetstream.JetStream) (drift, err error) {
	var wrong []error
	for _, want := range kept() {
		stream, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			wrong = append(wrong, fmt.Errorf("%s is gone", want.Name))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("configuration of %s: %w", want.Name, err)
		}
		if err := checkKept(stream.CachedInfo().Config, want); err != nil {
			wrong = append(wrong, fmt.Errorf("%s has drifted: %w", want.Name, err))
		}
	}
	return errors.Join(wrong...), nil
}

func kept() []jetstream.StreamConfig {
	var out []jetstream.StreamConfig
	for _, cfg := range Streams(1) {
		if cfg.Name == events.StreamCommands {
			out = append(out, cfg)
		}
	}
	for _, bucket := range Buckets() {
		out = append(out, bucketStream(bucket, 1))
	}
	return out
}

// checkKept looks at what decides whether something is lost or changed unseen;
// replicas and larger bounds are an operator's to choose.
func checkKept(c, want jetstream.StreamConfig) error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.DenyDelete == want.DenyDelete, "messages can be deleted")
	need(c.Retention == want.Retention && c.MaxAge == 0 && c.Discard == want.Discard, "what is stored could be dropped")
	need(want.MaxMsgs > 0 || c.MaxMsgs <= 0 && c.MaxBytes <= 0, "a limit would drop or refuse records")
	need(c.MaxMsgsPerSubject <= 0 || c.MaxMsgsPerSubject >= want.MaxMsgsPerSubject, "fewer revisions are kept")
	need(c.Storage == want.Storage && !c.NoAck, "writes may be lost unseen")
	need(!c.AllowDirect && !c.MirrorDirect, "direct gets are allowed: a follower could answer with an old record")
	need(len(c.Subjects) == 1 && c.Subjects[0] == want.Subjects[0] && c.SubjectTransform == nil && c.RePublish == nil &&
		len(c.Sources) == 0 && c.Mirror == nil, "its subjects or sources are not its own")
	need(!c.Sealed, "it is sealed")
	return errors.Join(errs...)
}
