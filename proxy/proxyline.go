package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The PROXY protocol: what a balancer of connections says in front of one about whose it
// is. Version 1 is a line of text, version 2 is binary:
//
//	PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n
//
//	 0                          12      13      14      16
//	├──────── signature ────────┼ver|cmd┼fam|trp┼ length ┼─ addresses, extensions ─┤
const (
	// longestLine is the longest line of version 1, its end included, in bytes.
	longestLine = 107
	// mostAddresses is the most that may follow the fixed part of version 2, in bytes.
	// Extensions, such as certificates, are read over.
	mostAddresses = 4096
)

const signature = "\r\n\r\n\x00\r\nQUIT\n"

var (
	errNoProxyLine  = errors.New("proxy: the connection does not begin with a PROXY protocol header, version 1 or 2")
	errBadProxyLine = errors.New("proxy: the PROXY protocol header breaks the format")
)

// readProxyLine reads the header in front of a connection. It returns where the connection
// begins; the zero AddrPort where the balancer says that it is its own, or does not know.
func readProxyLine(r *bufio.Reader) (netip.AddrPort, error) {
	first, err := r.ReadByte()
	if err != nil {
		return netip.AddrPort{}, err
	}
	_ = r.UnreadByte()
	switch first {
	case 'P':
		return readLine1(r)
	case '\r':
		return readLine2(r)
	}
	return netip.AddrPort{}, errNoProxyLine
}

// readLine1 reads version 1.
func readLine1(r *bufio.Reader) (netip.AddrPort, error) {
	var line []byte
	for len(line) < longestLine {
		b, err := r.ReadByte()
		if err != nil {
			return netip.AddrPort{}, err
		}
		if line = append(line, b); b == '\n' {
			break
		}
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok {
		return netip.AddrPort{}, errBadProxyLine
	}
	words := strings.Split(text, " ")
	if words[0] != "PROXY" {
		return netip.AddrPort{}, errNoProxyLine
	}
	if len(words) > 1 && words[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return netip.AddrPort{}, errBadProxyLine
	}
	from, err1 := netip.ParseAddr(words[2])
	to, err2 := netip.ParseAddr(words[3])
	port, err3 := parsePort(words[4])
	_, err4 := parsePort(words[5])
	if errors.Join(err1, err2, err3, err4) != nil || from.Is4() != (words[1] == "TCP4") || to.Is4() != from.Is4() || from.Zone() != "" || to.Zone() != "" {
		return netip.AddrPort{}, errBadProxyLine
	}
	return netip.AddrPortFrom(from.Unmap(), port), nil
}

func parsePort(s string) (uint16, error) {
	if len(s) > 1 && s[0] == '0' || strings.HasPrefix(s, "+") {
		return 0, errBadProxyLine
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err
}

// readLine2 reads version 2.
func readLine2(r *bufio.Reader) (netip.AddrPort, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return netip.AddrPort{}, err
	}
	if string(head[:12]) != signature {
		return netip.AddrPort{}, errNoProxyLine
	}
	length := int(binary.BigEndian.Uint16(head[14:]))
	command := head[12] & 0x0f
	if head[12]>>4 != 2 || command > 1 || length > mostAddresses {
		return netip.AddrPort{}, errBadProxyLine
	}
	rest := make([]byte, length)
	if _, err := io.ReadFull(r, rest); err != nil {
		return netip.AddrPort{}, err
	}
	if command == 0 {
		return netip.AddrPort{}, nil // of the balancer itself, such as a health check
	}
	switch family := head[13]; family {
	case 0x11: // TCP over IPv4: two addresses, two ports
		if length < 12 {
			return netip.AddrPort{}, errBadProxyLine
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest[:4])), binary.BigEndian.Uint16(rest[8:])), nil
	case 0x21:
		if length < 36 {
			return netip.AddrPort{}, errBadProxyLine
		}
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest[:16])).Unmap(), binary.BigEndian.Uint16(rest[32:])), nil
	default: // unknown, datagrams or sockets: no address of a client
		return netip.AddrPort{}, nil
	}
}

// proxied is a connection behind a balancer.
type proxied struct {
	net.Conn
	buffered *bufio.Reader // what came with the header
	from     net.Addr
}

// RemoteAddr implements net.Conn: where the connection begins, as the balancer says.
func (c *proxied) RemoteAddr() net.Addr { return c.from }

// Read implements net.Conn.
func (c *proxied) Read(p []byte) (int, error) {
	if c.buffered != nil {
		if c.buffered.Buffered() > 0 {
			return c.buffered.Read(p[:min(len(p), c.buffered.Buffered())])
		}
		c.buffered = nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets an upgraded connection end one direction.
func (c *proxied) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
