package cli

import (
	"context"
	"errors"
	"fmt"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitError carries an exit code for something that has already been said on
// stdout, such as a denial or a verdict.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

// exitCode maps an error to the contract's exit code.
func exitCode(err error) int {
	var (
		said  *exitError
		usage *usageError
		auth  *client.AuthError
		coded *events.Error
	)
	switch {
	case err == nil:
		return events.ExitOK
	case errors.As(err, &said):
		return said.code
	case errors.As(err, &usage):
		return events.ExitUsage
	case errors.As(err, &auth):
		return events.ExitUnauthorised
	case errors.As(err, &coded):
		return events.ExitCode(coded.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return events.ExitUnavailable
	}
	return events.ExitFailure
}
