package brokers

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// idlers is how many clients are connected that do nothing, and quickIdlers that in the quick form.
	idlers, quickIdlers = 10_000, 2000
	// firstIdlers connect before memory is looked at: what the first ones need once is not theirs.
	firstIdlers = 100
	// idleMost is the most memory, in KiB, that each may take of the broker.
	idleMost = 12
	// idleTime bounds how long one client may take to connect, idleSettle is how long all are left alone before memory is looked at.
	idleTime, idleSettle = 10 * time.Second, time.Second
)

// idle measures what idle connections take of each broker, and states its bars.
func idle(ctx context.Context, o experiment.Options, r *experiment.Result) error {
	n := idlers
	if o.Quick {
		n = quickIdlers
	}
	t := &table.Table{Title: fmt.Sprintf("%d idle connections", n), Columns: []table.Column{{Name: "broker"}, {Name: "protocol"}, {Name: "memory of each", Unit: "KiB", Format: "%.1f"}}}
	for _, b := range []struct {
		ours  bool
		start func(ctx context.Context) (contender, error)
	}{
		{true, func(ctx context.Context) (contender, error) { return startOurs(ctx, "spillgate", mqtt, nil) }},
		{true, func(ctx context.Context) (contender, error) { return startOurs(ctx, "spillgate", nats, nil) }},
		{true, func(ctx context.Context) (contender, error) { return startOurs(ctx, "spillgate", nsq, nil) }},
		{false, startMosquitto},
		{false, startNATS},
	} {
		c, each, err := idleAt(ctx, n, b.start)
		if err != nil {
			return fmt.Errorf("idle connections of %s, %s: %w", c.name, c.protocol, err)
		}
		t.Add(c.name, c.protocol, each)
		if b.ours {
			r.Ceiling("memory of an idle connection, "+c.protocol, " KiB", idleMost, 0, each)
		}
	}
	r.Table = append(r.Table, t)
	return nil
}

// idleAt starts a broker, and returns what each of n idle connections takes of it, in KiB.
func idleAt(ctx context.Context, n int, start func(context.Context) (contender, error)) (c contender, each float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c, err = start(ctx); err != nil {
		return c, 0, err
	}
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.(*net.TCPConn).SetLinger(0) // or its port is taken for a while
			conn.Close()
		}
	}()
	var before float64
	for i := range firstIdlers + n {
		if i == firstIdlers {
			time.Sleep(idleSettle)
			if before, err = machine.Resident(c.pid); err != nil {
				return c, 0, err
			}
		}
		conn, err := (&net.Dialer{Timeout: idleTime}).DialContext(ctx, "tcp", c.addr)
		if err != nil {
			return c, 0, fmt.Errorf("the %dth: %w", i+1, err)
		}
		conns = append(conns, conn)
		_ = conn.SetDeadline(time.Now().Add(idleTime))
		if err := protocols[c.protocol].open(conn, fmt.Sprintf("idle%05d", i), true); err != nil {
			return c, 0, fmt.Errorf("the %dth: %w", i+1, err)
		}
	}
	time.Sleep(idleSettle)
	after, err := machine.Resident(c.pid)
	return c, (after - before) / float64(n) / 1024, err
}
