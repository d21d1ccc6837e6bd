// Package stamp tells when the bytes read from a connection arrived at this machine.
//
// A server that reads the clock after the socket learns when its reader ran, not when the message
// arrived. The two differ by microseconds on an idle machine and by milliseconds on a busy one. A rate
// limit that uses the later instant delays messages because they were read together. The kernel stamps
// the arrival:
//
//	packet ──▶ kernel: stamped ──▶ socket ┄┄ wait ┄┄▶ recvmsg: bytes and stamp ──▶ Read, then Arrival
//
// Invariants: a connection reads, writes, closes and observes deadlines as the one that it wraps, also from several
// goroutines; a read allocates nothing and takes 0.1 µs longer. Arrival reports false if there is no stamp.
//
// The stamp is that of the last byte of a read, in wall-clock time; a read that returns several packets has that
// of the last one. A stamp may be in the future or far in the past where the clock was set in between:
// bound it before use. Linux stamps TCP on 64-bit processors. Elsewhere, and on connections of other kinds, there is no stamp.
//
// What this package does not do: it does not read ahead, order messages or correct clocks.
package stamp

import (
	"net"
	"time"
)

// Listen returns a listener like l whose connections tell when what they read last had arrived, where this
// system can tell; Arrival asks them. The others are returned as l accepts them.
//
// A connection has CloseRead and CloseWrite as a *net.TCPConn, which NetConn returns, for socket options.
// Reading from that one goes past the stamps.
func Listen(l net.Listener) net.Listener { return listen(l, false) }

// ListenBrief is Listen for a server whose goroutines say so before they run for long (package brief): its connections
// read without telling the scheduler, which takes less CPU where few messages come.
func ListenBrief(l net.Listener) net.Listener { return listen(l, true) }

// Arrival returns when the last byte that was read from c had arrived, and whether that is known. c may be
// a connection around one of Listen's, such as a *tls.Conn, if it has the method NetConn. It is
// safe for concurrent use, though only the goroutine that reads knows which read it is about.
func Arrival(c net.Conn) (time.Time, bool) {
	for c != nil {
		switch at := c.(type) {
		case interface{ Arrival() (time.Time, bool) }:
			return at.Arrival()
		case interface{ NetConn() net.Conn }:
			c = at.NetConn()
		default:
			return time.Time{}, false
		}
	}
	return time.Time{}, false
}
