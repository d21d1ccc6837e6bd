package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/guard/track"
)

// Bounds of one answer.
const (
	// Timeout is how long an answer may take if its context does not say. A server that collects garbage
	// answers late.
	Timeout = 3 * time.Second
	// OpenTimeout is how long all that a source asks at first may take: nothing is decided meanwhile.
	OpenTimeout = 10 * time.Second
	// largestAnswer is in bytes: a cluster in trouble has a few thousand tasks, each with
	// the text of its query.
	largestAnswer = 64 << 20
	// largestComplaint is in bytes.
	largestComplaint = 4 << 10
)

// opaqueID is the X-Opaque-Id of a guard's requests.
const opaqueID = "spillgate guard"

// refused is an answer other than 200.
type refused struct {
	status int
	right  string
	text   string
}

// Error says what to do about it.
func (r *refused) Error() string {
	switch r.status {
	case http.StatusUnauthorized:
		return "the server refuses user or password (401)"
	case http.StatusForbidden:
		return "the role lacks the privilege " + r.right + " (403)"
	}
	return fmt.Sprintf("the server answers %d: %s", r.status, r.text)
}

// Client speaks to one server, on connections of its own.
type Client struct {
	target *Target
	http   *http.Client
}

// New returns a client that has not connected yet.
func New(t *Target) *Client {
	return &Client{t, &http.Client{
		Transport:     &http.Transport{TLSClientConfig: t.tls, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request without a body and returns the answer. right is what the role needs for it.
func (c *Client) Do(ctx context.Context, method, path, right string) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, method, c.target.base+path, nil)
	if err != nil {
		return nil, err
	}
	if c.target.user != "" {
		r.SetBasicAuth(c.target.user, c.target.password)
	}
	r.Header.Set("X-Opaque-Id", opaqueID)
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, largestComplaint))
		return nil, &refused{resp.StatusCode, right, string(text)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	if err == nil && len(body) > largestAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", largestAnswer)
	}
	return body, err
}

// Status returns the status of a refusal, 0 for other errors.
func Status(err error) int {
	if r := (*refused)(nil); errors.As(err, &r) {
		return r.status
	}
	return 0
}

// Late returns err, as track.ErrLate if it only says that the time of an answer is over.
func Late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", track.ErrLate, err)
	}
	return err
}
