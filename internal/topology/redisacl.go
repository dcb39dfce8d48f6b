package topology

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// redisRight names key families and commands.
type redisRight struct{ keys, commands string }

// redisTable is the keys and data commands of each worker's scripts. Scripts
// run with the rights of who calls them.
func redisTable() map[string]redisRight {
	return map[string]redisRight{
		Reserver: {
			"bp reservation expiring live revoked epoch opened outbox concurrency similar outstanding",
			"get set hmget hget hexists hincrby zadd zcount zrange zrangebyscore zremrangebyscore xadd xlen exists",
		},
		Settler: {
			"bp reservation lapsing live revoked epoch outbox concurrency",
			"get set hmget hexists hincrby zadd zrem xadd exists",
		},
		Scribe: {
			"outbox scribe revoked epoch quarantine opened",
			"get hget hmget hgetall hset hexists exists xread xrange xrevrange xtrim xinfo|stream xlen zrangebyscore",
		},
		Reaper: {
			"bp reservation expiring lapsing live revoked epoch outbox concurrency quarantine",
			"get set type hmget hset hexists hincrby hlen zadd zrem zrange zrangebyscore xadd exists",
		},
		Reconciler: {
			"bp reservation expiring lapsing live revoked epoch opened outbox concurrency quarantine outstanding scribe similar " +
				"tree children registration",
			"get set del unlink type hmget hget hgetall hset hsetnx hdel hexists hlen hincrby zadd zrem zrange zrangebyscore zcard " +
				"hkeys xadd xlen xread xrange xrevrange xinfo|stream xgroup|create xgroup|destroy xsetid xtrim exists scan pexpire persist pttl multi exec watch unwatch",
		},
		Registrar: {
			"bp reservation lapsing live revoked epoch opened outbox concurrency outstanding tree children registration",
			"get set hmget hget hset hexists hincrby hgetall zadd zcount zrem zremrangebyscore zrange xadd exists",
		},
	}
}

// every worker may ask these.
const redisCommon = "+evalsha +script|load +ping +hello +auth +select +time +info +config|get"

// RedisACL are the user lines of Redis's ACL file or configuration, with
// hashed passwords.
//
// The default user is off, so nobody can be it, but keeps every right: Redis
// replays its AOF as that user, and a transaction that it may not execute is
// dropped from the data at the next start with no more than a line in the log.
func RedisACL(set Set) []string {
	lines, rights := []string{"user default off resetpass allkeys allchannels +@all"}, redisTable()
	for _, worker := range Workers() {
		c, r := set[worker], rights[worker]
		line := fmt.Sprintf("user %s on #%x resetkeys", c.Redis.User, sha256.Sum256([]byte(c.Redis.Password)))
		for _, key := range strings.Fields(r.keys) {
			line += " ~" + key + ":*"
		}
		line += " resetchannels -@all " + redisCommon
		for _, command := range strings.Fields(r.commands) {
			line += " +" + command
		}
		lines = append(lines, line)
	}
	return lines
}
