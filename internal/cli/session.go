package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// address is what DIR/up.json of a running system says.
type address struct {
	NATS  string `json:"nats_url"`
	Redis string `json:"redis_url"`
	HTTP  string `json:"http_url"`
	Admin string `json:"admin_token"`
	PID   int    `json:"pid"`
}

func (e *environment) dataDir() string {
	if e.data != "" {
		return e.data
	}
	return e.env("TALLY_DATA")
}

// running reads DIR/up.json, if a directory was named.
func (e *environment) readAddress() (address, bool, error) {
	dir := e.dataDir()
	if dir == "" {
		return address{}, false, nil
	}
	path := filepath.Join(dir, "up.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return address{}, false, &events.Error{Code: events.CodeUnavailable, Message: "nothing runs on " + dir + ": there is no up.json", Hint: "start it with `tallystick up --data " + dir + "`"}
	}
	if err != nil {
		return address{}, false, err
	}
	var a address
	if err := json.Unmarshal(b, &a); err != nil {
		return address{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return a, true, nil
}

// givenToken is the token of --token, --token-file or TALLY_TOKEN.
func (e *environment) givenToken() (string, error) {
	if e.tokenFile != "" && e.token != "" {
		return "", usagef("--token and --token-file exclude each other")
	}
	if e.tokenFile != "" {
		var b []byte
		var err error
		if e.tokenFile == "-" {
			b, err = io.ReadAll(io.LimitReader(os.Stdin, 4096))
		} else {
			b, err = os.ReadFile(e.tokenFile)
		}
		if err != nil {
			return "", fmt.Errorf("token file: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	if e.token != "" {
		return e.token, nil
	}
	return e.env("TALLY_TOKEN"), nil
}

// server is the URL to connect to: what was named, else what runs on the data
// directory.
func (e *environment) server() (string, error) {
	if e.url != "" {
		return e.url, nil
	}
	if v := e.env("TALLY_URL"); v != "" && e.data == "" {
		return v, nil
	}
	a, ok, err := e.readAddress()
	if err != nil {
		return "", err
	}
	if !ok {
		return "", usagef("no server named: use --data DIR or TALLY_DATA of a running `tallystick up`, or --url or TALLY_URL")
	}
	return a.NATS, nil
}

// asAgent connects with an agent's token.
func (e *environment) asAgent(ctx context.Context) (*client.Client, error) {
	token, err := e.givenToken()
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, usagef("no agent token: set TALLY_TOKEN, --token-file or --token")
	}
	url, err := e.server()
	if err != nil {
		return nil, err
	}
	return client.Connect(ctx, client.Config{URL: url, Token: token, Name: "tallystick-cli"})
}

// asOperator connects as the operator, or as an admin of an org, and gives the
// reason that --reason names.
func (e *environment) asOperator() (*client.Operator, error) {
	if refused := events.CheckReason(e.reason); refused != nil {
		return nil, usagef("--reason: %s", refused.Message)
	}
	url, token, err := e.operatorToken()
	if err != nil {
		return nil, err
	}
	op, err := client.ConnectOperator(url, token)
	if err != nil {
		return nil, err
	}
	return op.Because(e.reason), nil
}

// operatorToken is the token that was named, else of the data directory, else
// TALLY_TOKEN. A directory goes before TALLY_TOKEN, because that is usually an
// agent's.
func (e *environment) operatorToken() (url, token string, err error) {
	if url, err = e.server(); err != nil {
		return "", "", err
	}
	if e.token == "" && e.tokenFile == "" {
		a, ok, err := e.readAddress()
		if err != nil {
			return "", "", err
		}
		if ok {
			return url, a.Admin, nil
		}
	}
	if token, err = e.givenToken(); err != nil {
		return "", "", err
	}
	if token == "" {
		return "", "", usagef("no admin token: use --data DIR or TALLY_DATA of a running `tallystick up`, or TALLY_TOKEN or --token-file")
	}
	return url, token, nil
}
