package http1

import (
	"errors"
	"fmt"
)

// upgraded is the body of an answer 101: the connection, with what was read of it already.
type upgraded struct{ conn *conn }

// Read implements io.Reader.
func (u *upgraded) Read(p []byte) (int, error) {
	if br := u.conn.br; br != nil {
		if n := br.Buffered(); n > 0 {
			return br.Read(p[:min(n, len(p))])
		}
		u.conn.rest()
	}
	return u.conn.nc.Read(p)
}

// Write implements io.Writer.
func (u *upgraded) Write(p []byte) (int, error) { return u.conn.nc.Write(p) }

// Close implements io.Closer.
func (u *upgraded) Close() error { return u.conn.nc.Close() }

// CloseWrite ends one direction, where the connection can do that.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.conn.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("http1: the connection has no end of one direction: %w", errors.ErrUnsupported)
}
