package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"time"
)

// secured returns l as a listener of TLS whose connections have shaken hands, within a time. http.Server would do that
// itself, but nothing would see then what comes on a connection of HTTP/1: see framing.
func secured(l net.Listener, config *tls.Config, patience time.Duration, errs *log.Logger) net.Listener {
	g := &greeted{Listener: l, hear: func(ctx context.Context, c net.Conn) net.Conn {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		t := tls.Server(c, config)
		if err := t.HandshakeContext(ctx); err != nil {
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
				_ = c.SetWriteDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nThis port speaks HTTPS, and the request is one of HTTP.\n")
			}
			errs.Printf("handshake of TLS with %v: %v", c.RemoteAddr(), err)
			c.Close()
			return nil
		}
		own := placeIn(t)
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			own.http2.Store(true)
			return t // which the server knows it by
		}
		return &seenTLS{Conn: t, own: own}
	}}
	return g.listen()
}

// looksLikeHTTP reports whether what was taken for the header of a record is the beginning of a request.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// seenTLS is a connection of HTTP/1 over TLS, of which it is seen how requests are framed.
type seenTLS struct {
	*tls.Conn
	own *placed
}

// Read implements net.Conn.
func (c *seenTLS) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.own.framing.see(b[:n])
	return n, err
}
