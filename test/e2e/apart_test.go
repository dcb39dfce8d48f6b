package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

const (
	project = "../.."
	nats1   = "nats-server"
	redis1  = "redis-server"
)

func workers() []string {
	return []string{"registrar", "reserver", "settler", "scribe", "reaper", "reconciler"}
}

// apart is an installation of one process per part, started with the very
// commands of the README's section "Running workers apart". Only what must
// differ between two installations on one machine is added to them: addresses
// and directories.
type apart struct {
	*system
	creds, natsPort, redisPort string
	commands                   map[string][]string // by part, as the README has them
	http                       map[string]string   // address of each worker's probes
	nats                       map[string]string   // a worker's own way to NATS, if it has one
	parts                      map[string]*process
}

// startApart starts both servers and every worker, and waits until all are ready.
func startApart(t testing.TB) *apart {
	t.Helper()
	dir := t.TempDir()
	p := &apart{
		system: &system{TB: t, dir: dir}, creds: filepath.Join(dir, "creds"), natsPort: freePort(t), redisPort: freePort(t),
		http: map[string]string{}, nats: map[string]string{}, parts: map[string]*process{},
	}
	p.readme()
	t.Cleanup(p.stop)
	p.finish("credentials", "--nats", "127.0.0.1:"+p.natsPort, "--nats-store", filepath.Join(dir, "jetstream"))
	p.address.NATS = "nats://127.0.0.1:" + p.natsPort
	p.address.Redis = "redis://admin:" + p.secret("redis-admin.password") + "@127.0.0.1:" + p.redisPort
	p.env = []string{"TALLY_URL=" + p.address.NATS, "TALLY_TOKEN=" + p.secret("operator.token")}
	p.start(nats1)
	p.start(redis1)
	p.eventually("nats-server", 20*time.Second, func() error {
		nc, err := nats.Connect(p.address.NATS, p.user("setup", "broker"))
		if err == nil {
			nc.Close()
		}
		return err
	})
	p.finish("setup", "--url", p.address.NATS)
	for _, worker := range workers() {
		p.http[worker] = "127.0.0.1:" + freePort(t)
		p.start(worker)
	}
	p.ready()
	p.finish("org", "--url", p.address.NATS)
	return p
}

// readme reads the commands of the README; the comment behind the reserver's
// says that the other workers start the same way.
func (p *apart) readme() {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(project, "README.md"))
	if err != nil {
		p.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Running workers apart\n")
	section, _, _ = strings.Cut(section, "\n## ")
	p.commands = map[string][]string{}
	for line := range strings.Lines(section) {
		line, isCommand := strings.CutPrefix(line, "    ")
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if !isCommand || len(words) == 0 {
			continue
		}
		for i, w := range words {
			words[i] = strings.Replace(strings.TrimPrefix(w, "bin/"), "creds", p.creds, 1)
		}
		part, words := words[0], words[1:]
		if part == "tallystick" {
			part = words[0]
		}
		p.commands[part] = words
	}
	example := p.commands["reserver"]
	for _, worker := range workers() {
		p.commands[worker] = nil
		for _, word := range example {
			p.commands[worker] = append(p.commands[worker], strings.ReplaceAll(word, "reserver", worker))
		}
	}
	for _, part := range append(workers(), nats1, redis1, "credentials", "setup", "org") {
		if len(p.commands[part]) == 0 {
			p.Fatalf("the README does not say how to start %s", part)
		}
	}
}

// finish runs a command of the command line to its end.
func (p *apart) finish(part string, more ...string) {
	p.Helper()
	if _, code, text := command(p.TB, p.env, append(p.commands[part], more...)...); code != 0 {
		p.Fatalf("%s: exit %d: %s", part, code, text)
	}
}

// start starts a part, also again after its end.
func (p *apart) start(part string) {
	p.Helper()
	args, path := p.commands[part], built(part)
	switch part {
	case nats1:
	case redis1:
		data := filepath.Join(p.dir, "redis")
		if err := os.MkdirAll(data, 0o700); err != nil {
			p.Fatal(err)
		}
		path, args = part, append(args, "--port", p.redisPort, "--dir", data)
	default:
		url := p.address.NATS
		if own, ok := p.nats[part]; ok {
			url = own
		}
		args = append(args, "--nats", url, "--redis", "redis://127.0.0.1:"+p.redisPort, "--http", p.http[part])
		if part == "scribe" {
			args = append(args, "--data", p.dir)
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = project
	p.parts[part] = spawn(p.TB, p.dir, part, cmd)
}

// kill is kill -9.
func (p *apart) kill(part string) {
	p.Helper()
	p.parts[part].end(syscall.SIGKILL)
}

// drain ends a worker as its operator does.
func (p *apart) drain(worker string) {
	p.Helper()
	p.parts[worker].end(syscall.SIGTERM)
	if code := p.parts[worker].cmd.ProcessState.ExitCode(); code != 0 {
		p.Errorf("%s: exit %d after SIGTERM: %s", worker, code, p.parts[worker].text())
	}
}

// stop drains the workers, then ends the servers. A worker that does not
// leave with 0 has not drained.
func (p *apart) stop() {
	for _, part := range append(workers(), nats1, redis1) {
		if proc := p.parts[part]; proc != nil {
			if proc.gone() {
				p.Errorf("%s ended by itself", part)
			}
			proc.send(syscall.SIGCONT)
			proc.end(syscall.SIGTERM)
			if code := proc.cmd.ProcessState.ExitCode(); code != 0 && part != nats1 {
				p.Errorf("%s: exit %d after SIGTERM", part, code)
			}
		}
	}
	if p.Failed() {
		for part, proc := range p.parts {
			p.Logf("the end of %s's log:\n%s", part, proc.text())
		}
	}
}

// ready waits until every worker says so.
func (p *apart) ready() {
	p.Helper()
	for _, worker := range workers() {
		p.eventually(worker+" ready", 30*time.Second, func() error {
			if p.parts[worker].gone() {
				p.Fatalf("%s ended: %s", worker, p.parts[worker].text())
			}
			status, body, err := get("http://" + p.http[worker] + "/readyz")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d: %s", status, body)
			}
			return err
		})
	}
}

func get(url string) (status int, body string, err error) {
	c := http.Client{Timeout: 5 * time.Second}
	resp, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (p *apart) secret(file string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.creds, file))
	if err != nil {
		p.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// account is a name and a password in a credentials file.
type account struct{ User, Password string }

type accounts struct {
	NATS  map[string]account
	Redis account
}

func (p *apart) credentials(worker string) (c accounts) {
	p.Helper()
	if err := json.Unmarshal([]byte(p.secret(worker+".json")), &c); err != nil {
		p.Fatal(err)
	}
	return c
}

// user signs in as a worker does, or as setup.
func (p *apart) user(worker, name string) nats.Option {
	p.Helper()
	u := p.credentials(worker).NATS[name]
	return nats.UserInfo(u.User, u.Password)
}

// asWorker is a Redis client with a worker's rights.
func (p *apart) asWorker(worker string) *redis.Client {
	p.Helper()
	u := p.credentials(worker).Redis
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + p.redisPort, Username: u.User, Password: u.Password, MaxRetries: -1})
	p.Cleanup(func() { _ = c.Close() })
	return c
}

// streams is JetStream with the rights of setup.
func (p *apart) streams() jetstream.JetStream {
	p.Helper()
	nc, err := nats.Connect(p.address.NATS, p.user("setup", "broker"), nats.CustomInboxPrefix("_INBOX.setup"), nats.MaxReconnects(-1))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		p.Fatal(err)
	}
	return js
}
