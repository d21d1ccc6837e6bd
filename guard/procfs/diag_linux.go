package procfs

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel lists connections in /proc/net/tcp with all that were closed a minute ago: 13,000 of
// them took 0.3 s to read on a busy machine. Asked through netlink it lists those alone that are
// open (sock_diag(7)), and tells since when their request has been there.

// The layouts of inet_diag_req_v2 and inet_diag_msg, in bytes.
const (
	diagRequest = 56
	diagMessage = 72
	diagInfo    = 2 // INET_DIAG_INFO: an attribute with a tcp_info
	lastReceive = 52
	headerBytes = unix.SizeofNlMsghdr
	attrBytes   = unix.SizeofNlAttr
)

// mostAnswers bounds the parts of an answer, of up to 32 KiB each.
const mostAnswers = 1 << 12

var errDiag = errors.New("procfs: sock_diag does not answer as it should")

// diagBacklog lists what lies in accept queues, of IPv4 and IPv6, in this process's network.
func diagBacklog(into []Pending, ports []int) ([]Pending, error) {
	err := diagConnections(0, func(message []byte) {
		if p, ok := parseConnection(message); ok && slices.Contains(ports, p.Port) {
			into = append(into, p)
		}
	})
	return into, err
}

// diagUnread lists the clients' ports of the connections to a port whose process has not read all,
// in this process's network.
func diagUnread(into []int, port int) ([]int, error) {
	err := diagConnections(port, func(message []byte) {
		if remote, ok := parseUnreadConnection(message, port); ok {
			into = append(into, remote)
		}
	})
	return into, err
}

// diagConnections hands over what the kernel tells of each connection that is open, to a port of
// this machine unless that is 0.
func diagConnections(port int, take func(message []byte)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for _, family := range [...]byte{unix.AF_INET, unix.AF_INET6} {
		if err := unix.Sendto(fd, diagQuestion(family, port), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		for n := 0; ; n++ {
			read, _, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil {
				return err
			}
			done, err := parseDiag(buffer[:read], take)
			if err != nil {
				return err
			}
			if done {
				break
			}
			if n == mostAnswers {
				return errDiag
			}
		}
	}
	return nil
}

// diagQuestion asks for the connections of a family that are open, to a port unless that is 0.
func diagQuestion(family byte, port int) []byte {
	b := make([]byte, headerBytes+diagRequest)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b[headerBytes], b[headerBytes+1], b[headerBytes+2] = family, unix.IPPROTO_TCP, 1<<(diagInfo-1)
	binary.NativeEndian.PutUint32(b[headerBytes+4:], 1<<unix.BPF_TCP_ESTABLISHED)
	binary.BigEndian.PutUint16(b[headerBytes+8:], uint16(port))
	return b
}

// parseDiag reads one part of an answer, and reports whether it is the last.
func parseDiag(b []byte, take func(message []byte)) (done bool, err error) {
	for len(b) >= headerBytes {
		size := int(binary.NativeEndian.Uint32(b))
		if size < headerBytes || size > len(b) {
			return false, errDiag
		}
		switch message := b[headerBytes:size]; binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			return false, errDiag
		case unix.SOCK_DIAG_BY_FAMILY:
			take(message)
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}

// parseConnection reads a connection, and reports whether it lies in an accept queue with a request:
// no process has it, and something is unread.
func parseConnection(b []byte) (p Pending, ok bool) {
	if len(b) < diagMessage {
		return p, false
	}
	unread, inode := binary.NativeEndian.Uint32(b[56:]), binary.NativeEndian.Uint32(b[68:])
	if unread == 0 || inode != 0 {
		return p, false
	}
	p.Port = int(binary.BigEndian.Uint16(b[4:]))
	p.Client = int64(binary.NativeEndian.Uint64(b[44:])) // the cookie, which the kernel gives once
	for b = b[diagMessage:]; len(b) >= attrBytes; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < attrBytes || size > len(b) {
			break
		}
		if value := b[attrBytes:size]; binary.NativeEndian.Uint16(b[2:]) == diagInfo && len(value) >= lastReceive+4 {
			p.Waited = time.Duration(binary.NativeEndian.Uint32(value[lastReceive:])) * time.Millisecond
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return p, true
}

// parseUnreadConnection reads a connection, and returns its client's port if it is one to a port and
// something is unread.
func parseUnreadConnection(b []byte, port int) (remote int, ok bool) {
	if len(b) < diagMessage || int(binary.BigEndian.Uint16(b[4:])) != port || binary.NativeEndian.Uint32(b[56:]) == 0 {
		return 0, false
	}
	remote = int(binary.BigEndian.Uint16(b[6:]))
	return remote, remote > 0
}

// sameNetwork reports whether a process has this one's network.
func sameNetwork(pid int64) bool {
	if pid == 0 {
		return true
	}
	mine, err := os.Readlink("/proc/self/ns/net")
	other, errOther := os.Readlink("/proc/" + strconv.FormatInt(pid, 10) + "/ns/net")
	return err == nil && errOther == nil && mine == other
}
