package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestTenancy: what is another's is answered with the very bytes with which
// what never was is answered, on the wire and on the command line.
func TestTenancy(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, foreign := s.org(), s.org()
	s.pool(mine, "p", 1000)
	s.pool(foreign, "p", 1000)
	s.pool(foreign, "theirs", 1000)
	me, sibling, stranger := s.agent(mine, "p"), s.agent(mine, "p"), s.agent(foreign, "theirs")
	their := func(a *agent) string {
		id, _ := a.tells("allowed", "reserve", "k", reserve(10))["reservation"].(string)
		return id
	}
	never := uuid.NewString()
	nobody, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("wire", func(t *testing.T) {
		me := me.on(t)
		for _, id := range []string{their(sibling), their(stranger)} {
			for verb, body := range map[string]object{
				"settle": {"actual": usd(1)}, "release": {}, "extend": {"add": usd(1)}, "reservation": {},
			} {
				me.sameWords("rpc", verb, body, "reservation", id, never)
			}
		}
		for _, door := range []string{"rpc", "cmd"} {
			me.sameWords(door, "reserve", reserve(1), "pool", "theirs", "nowhere")
			me.sameWords(door, "charge", object{"actual": usd(1)}, "pool", "theirs", "nowhere")
			me.sameWords(door, "reserve", reserve(1), "settler", stranger.Agent, nobody.String())
		}
		me.sameWords("rpc", "balance", object{}, "pool", "theirs", "nowhere")
		me.sameWords("rpc", "release", object{}, "reservation", their(stranger), never)
	})
	t.Run("command line", func(t *testing.T) {
		me, id := me.on(t), their(stranger)
		for _, args := range [][]string{
			{"reservation", id, never},
			{"settle", "--key", "x", "--actual", "usd_microcents=1", "--reservation", id, never},
			{"release", "--key", "x", "--reservation", id, never},
			{"extend", "--key", "x", "--add", "usd_microcents=1", "--reservation", id, never},
			{"reserve", "--key", "x", "--amount", "usd_microcents=1", "--pool", "theirs", "nowhere"},
			{"balance", "--pool", "theirs", "nowhere"},
		} {
			sameWords(t, me.run, args)
		}
		for _, args := range [][]string{
			{"pool", "show", "--org", mine, "theirs", "nowhere"},
			{"pool", "set", "--cap", "1", "--org", mine, "theirs", "nowhere"},
			{"pool", "freeze", "--org", mine, "theirs", "nowhere"},
			{"agent", "revoke", "--org", mine, "--agent", stranger.Agent, nobody.String()},
			{"agent", "show", "--org", mine, "--agent", stranger.Agent, nobody.String()},
			{"pool", "close", "--org", mine, "theirs", "nowhere"},
			{"agent", "rotate", "--org", mine, "--agent", stranger.Agent, nobody.String()},
			{"agent", "register", "--org", mine, "--name", "n", "--pool", "theirs", "nowhere"},
			{"agent", "register", "--org", mine, "--name", "n", "--pool", "p", "--parent", stranger.Agent, nobody.String()},
			{"settle", "--org", mine, "--agent", me.Agent, "--key", "x", "--reservation", id, never},
			{"settle", "--org", mine, "--key", "x", "--reservation", id, "--agent", stranger.Agent, nobody.String()},
			{"release", "--org", mine, "--key", "x", "--reservation", id, "--agent", stranger.Agent, nobody.String()},
		} {
			sameWords(t, s.on(t).run, args)
		}
	})
	equal(t, "the stranger's", stranger.figures(), "held 10 spent 0 withheld 0")
	equal(t, "mine", me.figures(), "held 10 spent 0 withheld 0")
	s.lawful(mine)
	s.lawful(foreign)
}

// sameWords asks the same about what is another's and what is nowhere.
func (a *agent) sameWords(door, verb string, body object, field, theirs, nowhere string) {
	a.Helper()
	var words []string
	for _, value := range []string{theirs, nowhere} {
		body[field] = value
		key := ""
		if verb != "reservation" && verb != "balance" {
			key = "same " + field + value
		}
		words = append(words, a.answer(door, verb, key, body))
	}
	delete(body, field)
	if words[0] != words[1] || !strings.Contains(words[0], `"code":"not_found"`) {
		a.Errorf("%s at %s, another's %s: %s\nwhat never was: %s", verb, door, field, words[0], words[1])
	}
}

// answer is the whole answer or decision, headers that name the key apart.
func (a *agent) answer(door, verb, key string, body object) string {
	a.Helper()
	msg := a.message(door, verb, key, body)
	sub := a.listen(verb, key)
	defer func() { _ = sub.Unsubscribe() }()
	reply, err := a.nc.RequestMsg(msg, requestTimeout)
	if err == nil && string(reply.Data) == `{"outcome":"accepted"}` {
		reply, err = sub.NextMsg(requestTimeout)
	}
	if err != nil {
		a.Fatal(err)
	}
	reply.Header.Del("Tally-Key")
	return fmt.Sprint(reply.Header, string(reply.Data))
}

// sameWords runs a command line with each of its last two words as the last:
// both are not found, and both in the same words.
func sameWords(t *testing.T, run func(...string) (object, int, string), args []string) {
	t.Helper()
	n := len(args)
	_, one, theirs := run(args[:n-1]...)
	_, other, nowhere := run(append(args[:n-2:n-2], args[n-1])...)
	if one != 3 || other != 3 || theirs != nowhere {
		t.Errorf("%v\nexit %d: %s\n%s\nexit %d: %s", args[:n-2], one, theirs, args[n-1], other, nowhere)
	}
}
