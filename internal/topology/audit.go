package topology

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// mirrorAPI and mirrorDeliver are how account AUDIT names BROKER's JetStream
// API and where the mirror's entries arrive. Only the server itself uses them:
// no user has a right to either.
const (
	mirrorAPI     = "tally.broker.API"
	mirrorDeliver = "tally.mirror"
)

// AuditBuckets lists the key-value buckets of account AUDIT, which no worker
// that writes entries can reach.
func AuditBuckets() []string { return []string{events.BucketCheckpoints} }

// mirrorServices are what BROKER exports so that the server can copy LEDGER
// into AUDIT: making the mirror's consumer, and pacing it. Pacing has two
// forms; servers move from the first to the second.
func mirrorServices() []string {
	return []string{"$JS.API.CONSUMER.CREATE." + events.StreamLedger, "$JS.FC." + events.StreamLedger + ".>", "$JS.FC._.*." + events.StreamLedger + ".>"}
}

// mirrorStream is the copy of LEDGER. It outlives a purge or the loss of the
// original, and then no longer follows it: whoever reads it compares heads.
func mirrorStream(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: events.StreamMirror, Description: "copy of LEDGER for auditors",
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		DenyDelete: true, DenyPurge: true, Compression: jetstream.S2Compression, Replicas: replicas,
		Mirror: &jetstream.StreamSource{
			Name: events.StreamLedger, External: &jetstream.ExternalStream{APIPrefix: mirrorAPI, DeliverPrefix: mirrorDeliver},
		},
	}
}

// EnsureAudit makes whatever is missing in account AUDIT, as user setup. LEDGER
// has to be there.
func EnsureAudit(ctx context.Context, js jetstream.JetStream, replicas int) error {
	if err := ensureStream(ctx, js, mirrorStream(replicas)); err != nil {
		return fmt.Errorf("stream %s: %w", events.StreamMirror, err)
	}
	for _, bucket := range AuditBuckets() {
		if err := ensureStream(ctx, js, bucketStream(bucket, replicas)); err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
	}
	return nil
}

// EnsureAll makes whatever is missing, with setup's user in each account.
func EnsureAll(ctx context.Context, dial func(account string, u User) (*nats.Conn, error), creds Credentials, replicas int) error {
	for _, part := range []struct {
		account string
		ensure  func(context.Context, jetstream.JetStream, int) error
	}{{accountBroker, Ensure}, {accountAudit, EnsureAudit}} {
		nc, err := dial(part.account, creds.user(part.account))
		if err != nil {
			return fmt.Errorf("set up NATS: %w", err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return fmt.Errorf("set up NATS: %w", err)
		}
		if err := part.ensure(ctx, js, replicas); err != nil {
			return err
		}
	}
	return nil
}

// auditRights: the reconciler reads the mirror and keeps checkpoints; setup
// makes both and unmakes neither.
func auditRights(worker string) Rights {
	r := Rights{Subscribe: []string{"_INBOX." + worker + ".>"}}
	if worker == Setup {
		r.Publish, r.DenyPublish = []string{"$JS.API.>"}, setupNever(events.StreamMirror)
		return r
	}
	for _, stream := range []string{events.StreamMirror, "KV_" + events.BucketCheckpoints} {
		r.Publish = append(r.Publish, browse(stream)...)
		r.Publish = append(r.Publish, "$JS.API.STREAM.MSG.GET."+stream)
	}
	r.Publish = append(r.Publish, writeBucket(events.BucketCheckpoints)...)
	return r
}
