package procfs

import (
	"bytes"
	"os"
	"strconv"
)

// Unread appends to into the clients' ports of the TCP connections to a port of a process
// that have sent what the process has not read yet: requests that nobody works on. It
// sees the network of the process, a container's too.
func Unread(into []int, pid int64, port int) []int {
	if sameNetwork(pid) {
		if all, err := diagUnread(into, port); err == nil {
			return all
		}
	}
	for _, name := range [...]string{"tcp", "tcp6"} {
		if text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/net/" + name); err == nil {
			into = parseUnread(into, text, port)
		}
	}
	return into
}

// Connected reports whether the network of a process has a connection that comes from a client's port.
func Connected(pid int64, client int) bool {
	found := false
	for _, name := range [...]string{"tcp", "tcp6"} {
		if text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/net/" + name); err == nil {
			connections(text, func(_, remote int, _ uint64) { found = found || remote == client })
		}
	}
	return found
}

// parseUnread appends the clients' ports of the connections to a port that have sent what nobody has read.
func parseUnread(into []int, text []byte, port int) []int {
	connections(text, func(local, remote int, unread uint64) {
		if unread > 0 && local == port && remote > 0 {
			into = append(into, remote)
		}
	})
	return into
}

// established is the state of a connection in /proc/net/tcp.
const established = "01"

// connections reads lines of "number: address:port address:port state sent:unread …", in
// hexadecimal digits, and hands over the ports of each connection, -1 for one that cannot be read.
func connections(text []byte, take func(local, remote int, unread uint64)) {
	for line := range bytes.Lines(text) {
		var words [5][]byte
		rest := line
		for i := range words {
			rest = bytes.TrimLeft(rest, " ")
			words[i], rest, _ = bytes.Cut(rest, []byte(" "))
		}
		if string(words[3]) != established {
			continue
		}
		_, unread, _ := bytes.Cut(words[4], []byte(":"))
		if n, err := strconv.ParseUint(string(unread), 16, 32); err == nil {
			take(portOf(words[1]), portOf(words[2]), n)
		}
	}
}

// portOf returns the port of "address:port", -1 if there is none.
func portOf(address []byte) int {
	_, text, _ := bytes.Cut(address, []byte(":"))
	n, err := strconv.ParseUint(string(text), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}
