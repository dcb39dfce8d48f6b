package topology

import (
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
