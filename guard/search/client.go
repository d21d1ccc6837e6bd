package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of one answer.
const (
	// LookTimeout is how long one look may take. A node that collects garbage answers late.
	LookTimeout = 3 * time.Second
	// largestAnswer is in bytes: a cluster in trouble has a few thousand tasks, each with
	// the text of its query.
	largestAnswer = 64 << 20
	// largestComplaint is in bytes.
	largestComplaint = 4 << 10
)

// Rights of the role, as both servers name them.
const (
	rightMain   = "cluster:monitor/main"
	rightTasks  = "cluster:monitor/tasks/lists"
	rightTask   = "cluster:monitor/task/get"
	rightStats  = "cluster:monitor/nodes/stats"
	rightNodes  = "cluster:monitor/nodes/info"
	rightCancel = "cluster:admin/tasks/cancel"
)

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

// client speaks to one node of the cluster, on connections of its own.
type client struct {
	*target
	http *http.Client
}

func newClient(t *target) *client {
	return &client{t, &http.Client{
		Transport:     &http.Transport{TLSClientConfig: t.tls, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: LookTimeout, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends a request without a body and returns the answer. right is what the role needs for it.
func (c *client) do(ctx context.Context, method, path, right string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	if c.user != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	r.Header.Set("X-Opaque-Id", OpaqueID)
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

// status returns the status of a refusal, 0 for other errors.
func status(err error) int {
	if r := (*refused)(nil); errors.As(err, &r) {
		return r.status
	}
	return 0
}
