package app

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/rs/zerolog"
)

// Keys of structured log fields.
const (
	logWorker  = "worker"
	logConn    = "conn"
	logAddr    = "addr"
	logSubject = "subject"
)

// CheckLogging refuses a level or format that NewLogger does not know.
func CheckLogging(level, format string) error {
	if _, ok := logLevels[level]; !ok {
		return fmt.Errorf("unknown log level %q: debug, info, warn or error", level)
	}
	if format != "auto" && format != "json" && format != "console" {
		return fmt.Errorf("unknown log format %q: auto, json or console", format)
	}
	return nil
}

var logLevels = map[string]zerolog.Level{
	"debug": zerolog.DebugLevel,
	"info":  zerolog.InfoLevel,
	"warn":  zerolog.WarnLevel,
	"error": zerolog.ErrorLevel,
}

// tokenShape matches an agent's token anywhere in a line. The length is open
// so that a cut or glued token does not slip through.
var tokenShape = regexp.MustCompile(`tly_[0-9A-Za-z]{12,}`)

// redactor keeps tokens out of logs whatever field they were put in. zerolog
// writes one event per Write, so no token is split across two calls.
type redactor struct{ w io.Writer }

func (r redactor) Write(p []byte) (int, error) {
	if _, err := r.w.Write(tokenShape.ReplaceAll(p, []byte("tly_[redacted]"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// NewLogger logs to w: JSON lines, or for people when format is console, or
// auto and w is a terminal.
func NewLogger(w *os.File, level, format string) zerolog.Logger {
	var out io.Writer = redactor{w}
	if format == "console" || format == "auto" && isTerminal(w) {
		out = zerolog.ConsoleWriter{Out: redactor{w}, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != "" || !isTerminal(w)}
	}
	return zerolog.New(out).Level(logLevels[level]).With().Timestamp().Logger()
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
