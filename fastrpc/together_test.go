package fastrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// answerTogether serves one connection: it answers the first calls in one write, once so many of them were cancelled, and then say
// follows. leave is called when all of them are there. Later calls are answered at once. It returns when the client closes the connection.
func answerTogether(l net.Listener, calls, cancelled int, leave func(), say []byte) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	_ = l.Close()
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(conn, make([]byte, prefaceLen)); err != nil {
		return err
	}
	hello := preface{lowest: 1, highest: 1, credits: true, frame: leastFrame, lanes: MaxLanes}.append(nil)
	grant := wire.Reply{Grant: wire.Grant{Epoch: 1, Seq: 1, Window: uint32(calls)}, HasGrant: true}
	if _, err := conn.Write(appendText(hello, kindGrant, grant.Append(nil))); err != nil {
		return err
	}
	in := inbox{conn: conn, limit: leastFrame}
	var answers []byte
	for came, left := 0, 0; ; {
		f, err := in.next()
		if err != nil {
			return err
		}
		switch f[0] {
		case kindRequest:
			var r request
			body, err := parseRequest(f, &r)
			if err != nil {
				return err
			}
			came++
			answers = (&response{stream: r.stream, granted: true, seq: uint32(1 + came), window: uint16(calls)}).append(answers, body)
			if came == calls {
				leave()
			}
		case kindCancel:
			left++
		}
		if came >= calls && left >= cancelled && len(answers) > 0 {
			if _, err := conn.Write(append(answers, say...)); err != nil {
				return err
			}
			answers, say = answers[:0], nil
		}
	}
}

// Answers that come in one read reach each its own caller, whoever of the others has left, and every credit comes back. There are more of
// them than are told together.
func TestAnswersThatComeTogether(t *testing.T) {
	const calls, leaves = 2*mostTogether + 2, 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	leaver, leave := context.WithCancel(within(t))
	served := make(chan error, 1)
	go func() { served <- answerTogether(l, calls, (calls+leaves-1)/leaves, leave, nil) }()
	c := dial(t, ClientConfig{}, l.Addr().String())
	echo := c.Method("echo")
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			say := strconv.Itoa(i)
			if i%leaves == 0 {
				if _, err := echo.Call(leaver, []byte(say), nil); !errors.Is(err, context.Canceled) {
					t.Errorf("call %d, which was left, returned %v", i, err)
				}
			} else if out, err := echo.Call(within(t), []byte(say), nil); err != nil || string(out) != say {
				t.Errorf("call %d returned %q, %v", i, out, err)
			}
		})
	}
	all.Wait()
	link := c.routes.Load().links[0]
	eventually(t, "all credits came back", func() bool { return link.server.Outstanding() == 0 && link.flying.Load() == 0 })
	for range calls {
		if out, err := echo.Call(within(t), []byte("again"), nil); err != nil || string(out) != "again" {
			t.Fatalf("a later call returned %q, %v", out, err)
		}
	}
	c.Close()
	if err := <-served; !errors.Is(err, io.EOF) {
		t.Errorf("the server ended with %v", err)
	}
}

// What was answered before a server breaks the format was answered.
func TestAnswersBeforeAMistake(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- answerTogether(l, 1, 0, func() {}, (&response{stream: 9 << 16}).append(nil, nil)) }()
	c := dial(t, ClientConfig{}, l.Addr().String())
	if out, err := c.Method("echo").Call(within(t), []byte("hello"), nil); err != nil || string(out) != "hello" {
		t.Errorf("the call returned %q, %v", out, err)
	}
	<-served
}
