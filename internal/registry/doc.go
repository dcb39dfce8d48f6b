// Package registry keeps structure and identity in JetStream KV: orgs, pools
// with their limits and slots, agents, principals, tokens, and the epochs of
// partitions.
//
// The buckets are the authority. [Directory] reads and writes them: every
// change is a compare-and-set on the record's revision, so two registrars
// cannot overwrite each other. [Cache] is the hot path's view: it follows the
// buckets into memory and may be a moment behind. That is safe because what a
// decision rests on is checked again in Redis: a pool's revision, its caps and
// whether it is frozen, and who is revoked. Who manages a principal is not: a
// manager that was removed may spend for it until the watch has said so.
package registry
