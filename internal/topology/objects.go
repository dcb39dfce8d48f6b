package topology

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tallystick/pkg/events"
)

// ObjectStores lists the object stores.
func ObjectStores() []string {
	return []string{events.StoreEvidence, events.StoreReports, events.StoreFolds}
}

// objectStream is the stream under an object store. It has to allow roll-ups,
// which need purges, so that nothing is overwritten or removed rests on the
// rights: nobody may purge but the reconciler its own folds.
func objectStream(store string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: objectStreamName(store), Subjects: []string{"$O." + store + ".C.>", "$O." + store + ".M.>"},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		DenyDelete: true, AllowRollup: true, Duplicates: dedupeMin, Replicas: replicas,
	}
}

// Bounds of what was begun to be uploaded.
const (
	uploadsMaxAge   = time.Hour
	uploadsMaxBytes = 256 << 20
)

// uploadsStream is the stream under the bucket of uploads, the one bucket that
// forgets by itself, so nobody has to clean up after a caller that went away.
func uploadsStream(replicas int) jetstream.StreamConfig {
	cfg := bucketStream(events.BucketUploads, replicas)
	cfg.MaxAge, cfg.MaxBytes = uploadsMaxAge, uploadsMaxBytes
	return cfg
}

// keepUploads: read parts and add to them, which is how one is dropped as well.
func keepUploads() []string {
	stream := "KV_" + events.BucketUploads
	return append(writeBucket(events.BucketUploads), "$JS.API.STREAM.INFO."+stream, "$JS.API.STREAM.MSG.GET."+stream)
}

func objectStreamName(store string) string { return "OBJ_" + store }

// keepObjects: read a store and add to it.
func keepObjects(store string) []string {
	stream := objectStreamName(store)
	return append(browse(stream), "$JS.API.STREAM.MSG.GET."+stream, "$O."+store+".C.>", "$O."+store+".M.>")
}

// dropObjects: forget what is in a store.
func dropObjects(store string) []string {
	return []string{"$JS.API.STREAM.PURGE." + objectStreamName(store)}
}
