package brokers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

// generatorRole makes the program a generator.
const generatorRole proc.Role[order] = "SPILLGATE_LAB_BROKER_LOAD"

// order is what a generator does.
type order struct {
	Addr string
	// Protocol is one of protocols.
	Protocol string
	Seed     uint64
	// Streams are the topics and who publishes to them.
	Streams []stream
	// Warmup and Measure are how long it sends, in seconds; what is sent in Measure
	// counts.
	Warmup, Measure float64
	// Window, if not 0, has it send as much as goes with that many messages under way,
	// Batch of them a write; the rates of the streams do not matter then.
	Window, Batch int
	// Together is how many publishers, one after the other, send at the same instant;
	// 0 is 1.
	Together int
	// Nodes are those of a cluster, over which the publishers of the only stream are
	// spread in turn, Dealt of them, one after the other, at the same node (0 is 1); none: all are at Addr, where the
	// subscriber is. Follow has each go to where the cluster sends it.
	Nodes  []string
	Dealt  int
	Follow bool
}

// stream is one topic.
type stream struct {
	Rate       float64 // messages/s, Poisson
	Publishers int
}

// answer is what a generator found.
type answer struct {
	// Latency has quantiles by stream, in µs from the write to the subscriber's read.
	Latency []quantiles
	// Others are those of all streams but the last together.
	Others quantiles
	// Lag is how late it sent, p99 in µs.
	Lag        float64
	Throughput float64 // messages/s received
	Lost       int     // with Window: messages that never came
}

type quantiles struct {
	N             int
	P50, P99, Max float64
}

const (
	// spin is how long before a message is due the generator stops resting.
	spin = 20 * time.Microsecond

	// payload is that of a message, in bytes.
	payload = 100
)

// generator is the state of one run.
type generator struct {
	o     order
	wire  *wire
	conns []socket // of the publishers, stream by stream
	first []int    // of each stream's publishers; one more at the end
	sub   socket
	in    []byte
	held  int // bytes of in that are no whole packet yet
	base  time.Time

	latency  [][]int64
	lag      []int64
	received int
	from     time.Duration // what was sent from here on counts
}

// socket is a connection whose descriptor is used without waiting.
type socket struct {
	conn net.Conn
	fd   int
}

func generate(o order) error {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	g := &generator{o: o, wire: protocols[o.Protocol], in: make([]byte, 1<<20), latency: make([][]int64, len(o.Streams))}
	if g.wire == nil || g.wire.came == 0 {
		return fmt.Errorf("protocol %q, expected mqtt or nats", o.Protocol)
	}
	for i, s := range o.Streams {
		g.latency[i] = make([]int64, 0, int(1.2*s.Rate*o.Measure)+1000)
	}
	if err := g.connect(); err != nil {
		return err
	}
	g.base = time.Now()
	var a answer
	var err error
	if o.Window > 0 {
		a.Throughput, a.Lost, err = g.flat()
	} else {
		err = g.poisson()
		a.Latency, a.Others = make([]quantiles, len(g.latency)), of(slices.Concat(g.latency[:len(g.latency)-1]...))
		for i, l := range g.latency {
			a.Latency[i] = of(l)
		}
		a.Lag = of(g.lag).P99
	}
	if err != nil {
		return err
	}
	return proc.Answer(a)
}

func of(l []int64) quantiles {
	if len(l) == 0 {
		return quantiles{}
	}
	slices.Sort(l)
	at := func(q float64) float64 { return float64(l[min(int(q*float64(len(l))), len(l)-1)]) / 1e3 }
	return quantiles{len(l), at(0.5), at(0.99), at(1)}
}

// connect opens the publishers and the subscriber.
func (g *generator) connect() (err error) {
	if g.sub, err = g.open("sub", true); err != nil {
		return err
	}
	if len(g.o.Nodes) > 0 {
		return g.spread()
	}
	for i, s := range g.o.Streams {
		g.first = append(g.first, len(g.conns))
		for n := range s.Publishers {
			c, err := g.open(publisher(i, n), false)
			if err != nil {
				return err
			}
			g.conns = append(g.conns, c)
		}
	}
	g.first = append(g.first, len(g.conns))
	return nil
}

// open opens one connection.
func (g *generator) open(id string, subscribe bool) (s socket, err error) {
	conn, err := net.Dial("tcp", g.o.Addr)
	if err != nil {
		return s, err
	}
	if err := g.wire.open(conn, id, subscribe); err != nil {
		return s, err
	}
	return socketOf(conn)
}

// socketOf returns a connection as the generator uses it.
func socketOf(conn net.Conn) (s socket, err error) {
	s.conn = conn
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return s, err
	}
	return s, raw.Control(func(fd uintptr) { s.fd = int(fd) })
}

// poisson sends what is due until the time is over, and waits for what is under way.
func (g *generator) poisson() error {
	all := newArrivals(g.o)
	packets, at := make([][]byte, len(g.o.Streams)), 0
	for i := range g.o.Streams {
		packets[i], at = g.wire.packet(i)
	}
	g.lag = make([]int64, 0, int(1.2*all.rate*g.o.Measure)+1000)
	g.from = seconds(g.o.Warmup)
	end := g.from + seconds(g.o.Measure)
	for now := time.Duration(0); now < end+100*time.Millisecond; now = time.Since(g.base) {
		for all.next <= now && all.next < end {
			next, i, from := all.take()
			now = time.Since(g.base)
			if err := g.send(g.first[i]+from, packets[i], at); err != nil {
				return err
			}
			if next >= g.from {
				g.lag = append(g.lag, int64(now-next))
			}
			if err := g.look(); err != nil {
				return err
			}
		}
		if err := g.look(); err != nil {
			return err
		}
		if left := min(all.next, end) - time.Since(g.base); left > spin {
			rest(g.sub.fd, left-spin)
		}
	}
	return nil
}

// send has one publisher, or those that send together from this one on, send a packet whose payload begins at a place.
func (g *generator) send(from int, packet []byte, at int) error {
	for i := from; i < from+max(g.o.Together, 1); i++ {
		binary.LittleEndian.PutUint64(packet[at+1:], uint64(time.Since(g.base)))
		err := write(g.conns[i].fd, packet)
		if err != nil && g.o.Follow { // the cluster has sent it elsewhere
			g.conns[i].conn.Close()
			if g.conns[i], err = g.enter(i); err == nil {
				err = write(g.conns[i].fd, packet)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flat sends as much as goes, and returns the rate of what came.
func (g *generator) flat() (rate float64, lost int, err error) {
	batches := make([][]byte, len(g.o.Streams))
	for i := range batches {
		for range g.o.Batch {
			p, _ := g.wire.packet(i)
			batches[i] = append(batches[i], p...)
		}
	}
	g.from = 1 << 62
	from, end := seconds(g.o.Warmup), seconds(g.o.Warmup+g.o.Measure)
	sent, counted, began := 0, 0, time.Duration(0)
	progress, last := time.Duration(0), 0
	for turn := 0; ; turn++ {
		now := time.Since(g.base)
		switch {
		case began == 0 && now >= from:
			began, counted = now, g.received
		case now >= end:
			return float64(g.received-counted) / (now - began).Seconds(), lost, nil
		}
		if g.received > last {
			last, progress = g.received, now
		} else if now-progress > 200*time.Millisecond { // what is under way is lost
			lost += sent - lost - g.received
			progress = now
		}
		if sent-lost-g.received+g.o.Batch <= g.o.Window {
			i := turn % len(batches)
			if err := write(g.conns[g.first[i]+turn/len(batches)%g.o.Streams[i].Publishers].fd, batches[i]); err != nil {
				return 0, 0, err
			}
			sent += g.o.Batch
		}
		if err := g.look(); err != nil {
			return 0, 0, err
		}
	}
}

// write writes all of b, spinning where the socket takes no more.
func write(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		switch {
		case err == syscall.EAGAIN, err == syscall.EINTR:
		case err != nil:
			return fmt.Errorf("write to the broker: %w", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

// look takes what the subscriber has been sent.
func (g *generator) look() error {
	n, err := syscall.Read(g.sub.fd, g.in[g.held:])
	switch {
	case err == syscall.EAGAIN, err == syscall.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("read from the broker: %w", err)
	case n == 0:
		return errors.New("the broker closed the subscriber's connection")
	}
	now := time.Since(g.base)
	b := g.in[:g.held+n]
	size := g.wire.came
	g.received += len(b) / size
	if g.o.Window == 0 {
		for ; len(b) >= size; b = b[size:] {
			at := b[g.wire.before:]
			if sent := time.Duration(binary.LittleEndian.Uint64(at[1:])); sent >= g.from {
				g.latency[at[0]] = append(g.latency[at[0]], int64(now-sent))
			}
		}
	} else {
		b = b[len(b)/size*size:]
	}
	g.held = copy(g.in, b)
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
