package fastrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// Error is the error of a handler, as its caller sees it. A handler that returns another
// error answers with its text and code 0.
type Error struct {
	// Code is for the application; 0 is an error without one.
	Code uint32
	// Message is for people. What is over 1,024 bytes of it is cut off on its way.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Code == 0 {
		return "fastrpc: the handler failed: " + e.Message
	}
	return fmt.Sprintf("fastrpc: the handler failed with code %d: %s", e.Code, e.Message)
}

var (
	// ErrLost is wrapped by the error of a call whose connection broke, or that found no
	// connection. If it was sent, it may have been executed.
	ErrLost = errors.New("fastrpc: the connection is lost")
	// ErrNoMethod is wrapped by the error of a call to a method that the server does not have.
	ErrNoMethod = errors.New("fastrpc: the server does not have the method")
	// ErrFailed is wrapped by the error of a call whose handler panicked.
	ErrFailed = errors.New("fastrpc: the handler panicked")
	// ErrClosed is the error of a call of a closed Client, and of Serve of a server that was
	// shut down.
	ErrClosed = errors.New("fastrpc: closed")
	// ErrTooLong is wrapped by the error of a message that is longer than the other side takes.
	ErrTooLong = errors.New("fastrpc: the message is too long")
)

// statusOf returns how a handler's error is told, and its text.
func statusOf(err error, ended bool) (status uint8, code uint32, message string) {
	var own *Error
	switch {
	case err == nil:
		return statusOK, 0, ""
	case ended && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return statusEnded, 0, ""
	case errors.As(err, &own):
		return statusError, own.Code, own.Message
	}
	return statusError, 0, err.Error()
}

// errorOf returns the error of a call that was answered with a status other than OK, and
// a body.
func errorOf(method string, r *response, body []byte) error {
	switch r.status {
	case statusError:
		if len(body) < 4 {
			return &Error{}
		}
		code := uint32(body[0])<<24 | uint32(body[1])<<16 | uint32(body[2])<<8 | uint32(body[3])
		return &Error{Code: code, Message: string(body[4:])}
	case statusNoMethod:
		return fmt.Errorf("%w %q: expected one that it handles", ErrNoMethod, method)
	case statusFailed:
		return fmt.Errorf("%w in %q: its server's log says why", ErrFailed, method)
	case statusEnded:
		return fmt.Errorf("fastrpc: the budget of the call to %q ended at the server: %w", method, context.DeadlineExceeded)
	}
	refusal := &live.Refusal{Reason: r.reason, Pushback: -1}
	if r.retryable {
		refusal.Pushback = r.delay
	}
	return refusal
}

// unsent is the error of a call that was refused at the client.
func unsent(reason work.Reason) error { return &live.Refusal{Reason: reason} }
