package allinone

import (
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/topology"
)

// writeFiles writes redis.conf and users.acl. Passwords stand in neither.
func (c RedisConfig) writeFiles(port int) error {
	if err := topology.WriteSecretFile(c.path("users.acl"), topology.RedisACL(c.Set)); err != nil {
		return err
	}
	return topology.WriteSecretFile(c.path("redis.conf"), c.conf(port))
}

// conf: every write is on disk before it is answered, nothing is ever evicted,
// and the AOF is rewritten rarely, because a rewrite under load doubles the
// time of an fsync.
func (c RedisConfig) conf(port int) string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", name, value) }
	set("bind", "127.0.0.1")
	set("port", strconv.Itoa(port))
	set("protected-mode", "yes")
	if c.hasSocket() {
		set("unixsocket", strconv.Quote(c.socket()))
		set("unixsocketperm", "700")
	}
	set("aclfile", strconv.Quote(c.path("users.acl")))
	set("dir", strconv.Quote(c.Dir))
	set("pidfile", strconv.Quote(c.path("redis.pid")))
	set("logfile", strconv.Quote(c.path("redis.log")))
	set("loglevel", "notice")
	set("daemonize", "no")
	set("databases", "1")
	set("save", `""`)
	set("appendonly", "yes")
	set("appendfsync", "always")
	set("no-appendfsync-on-rewrite", "no")
	set("auto-aof-rewrite-percentage", "100")
	set("auto-aof-rewrite-min-size", "1gb")
	set("aof-load-truncated", "yes")
	set("maxmemory-policy", "noeviction")
	set("timeout", "0")
	return b.String()
}
