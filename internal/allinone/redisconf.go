package allinone

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tallystick/internal/topology"
)

// admin is the user with every right. Its password is kept, so that a server
// left behind can still be told to end.
func (c RedisConfig) admin() (topology.User, error) {
	path := c.path("admin.secret")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // never fails; the program ends where it would
		text = []byte(hex.EncodeToString(secret[:]))
		err = writeSecretFile(path, string(text))
	}
	if err != nil {
		return topology.User{}, fmt.Errorf("administrator: %w", err)
	}
	return topology.User{User: "admin", Password: string(text)}, nil
}

// writeFiles writes redis.conf and users.acl. Passwords stand in neither.
func (c RedisConfig) writeFiles(port int, admin topology.User) error {
	lines := append(topology.RedisACL(c.Set),
		fmt.Sprintf("user %s on #%x ~* &* +@all", admin.User, sha256.Sum256([]byte(admin.Password))))
	if err := writeSecretFile(c.path("users.acl"), strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	return writeSecretFile(c.path("redis.conf"), c.conf(port))
}

// writeSecretFile replaces a file in one step; it is its owner's alone from
// its first byte on.
func writeSecretFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
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
