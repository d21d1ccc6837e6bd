package front

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// A client and a server of HTTP/1.1 that understand what they say to each other through a reverse proxy, and no more. With
// those of net/http a request at half the load of the proxy took them longer than the proxy, and the p99 was theirs.

// lean asks one server for the same thing again and again, on connections that it keeps: so many at most, beyond which
// requests wait for one. It may be used at once from any goroutine.
type lean struct {
	addr, text string
	rooms      chan struct{} // an element for each request under way

	mu   sync.Mutex
	idle []*leanConn
	all  map[*leanConn]struct{}
	over bool
}

type leanConn struct {
	net.Conn
	in *bufio.Reader
}

// newLean returns a client of the server at addr, with at most so many connections, until ctx ends.
func newLean(ctx context.Context, addr string, most int) *lean {
	l := &lean{addr: addr, rooms: make(chan struct{}, most), text: "GET / HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", all: map[*leanConn]struct{}{}}
	context.AfterFunc(ctx, l.close)
	return l
}

func (l *lean) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for c := range l.all {
		_ = c.Close()
	}
}

// get asks once and returns the status of the answer.
func (l *lean) get() (status int, err error) {
	l.rooms <- struct{}{}
	defer func() { <-l.rooms }()
	c, err := l.take()
	if err != nil {
		return 0, err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err = c.Write([]byte(l.text)); err == nil {
		status, err = c.answer()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		delete(l.all, c)
		_ = c.Close()
		return 0, err
	}
	l.idle = append(l.idle, c)
	return status, nil
}

func (l *lean) take() (*leanConn, error) {
	l.mu.Lock()
	if last := len(l.idle) - 1; last >= 0 {
		c := l.idle[last]
		l.idle = l.idle[:last]
		l.mu.Unlock()
		return c, nil
	}
	l.mu.Unlock()
	nc, err := net.Dial("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	c := &leanConn{nc, bufio.NewReaderSize(nc, 2<<10)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = nc.Close()
		return nil, net.ErrClosed
	}
	l.all[c] = struct{}{}
	return c, nil
}

// answer reads an answer whose length its header tells.
func (c *leanConn) answer() (status int, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case first && len(line) < len("HTTP/1.1 200"):
			return 0, fmt.Errorf("an answer begins with %q", line)
		case first:
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, err
			}
		case len(line) == 0 && length < 0:
			return 0, errors.New("an answer does not tell its length")
		case len(line) == 0:
			_, err = c.in.Discard(length)
			return status, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// leanAnswer is what a lean server says to every request.
const leanAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" +
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// serveLean answers requests without a body until the process ends.
func serveLean() error {
	if err := limitFiles(0); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %v\n", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answerLean(c)
	}
}

func answerLean(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 4<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := c.Write([]byte(leanAnswer)); err != nil {
			return
		}
	}
}
