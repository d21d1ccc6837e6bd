package procfs

import (
	"bytes"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"time"
)

// Pending is a connection that lies in an accept queue with a request: the client has sent
// something, and no process has the connection.
type Pending struct {
	// Port is the server's.
	Port int
	// Client is a number that no other connection to the port has at the same time.
	Client int64
	// Waited is how long ago it sent something last, to a tick of the kernel; 0 where the kernel
	// does not tell.
	Waited time.Duration
}

// Backlog appends to into what lies in the accept queues of TCP ports, in the network of a
// process; 0 is this one. The kernel gives a socket a file, and so an inode, when it is
// accepted.
func Backlog(into []Pending, pid int64, ports ...int) []Pending {
	if sameNetwork(pid) {
		if all, err := diagBacklog(into, ports); err == nil {
			return all
		}
	}
	where := "/proc/self/net/"
	if pid != 0 {
		where = "/proc/" + strconv.FormatInt(pid, 10) + "/net/"
	}
	for _, name := range [...]string{"tcp", "tcp6"} {
		if text, err := os.ReadFile(where + name); err == nil {
			into = parseBacklog(into, text, ports)
		}
	}
	return into
}

// parseBacklog reads lines as parseUnread does, to the inode, which is the tenth word.
func parseBacklog(into []Pending, text []byte, ports []int) []Pending {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) < 10 || string(words[3]) != established || string(words[9]) != "0" {
			continue
		}
		_, unread, _ := bytes.Cut(words[4], []byte(":"))
		n, err := strconv.ParseUint(string(unread), 16, 32)
		if port := portOf(words[1]); err == nil && n > 0 && slices.Contains(ports, port) {
			h := fnv.New64a()
			h.Write(words[2])
			into = append(into, Pending{Port: port, Client: int64(h.Sum64())})
		}
	}
	return into
}

// connecting is the state of a Unix socket in /proc/net/unix that no process has accepted.
const connecting = "02"

// UnixBacklog returns how many connections lie in the accept queue of a Unix socket. ok is false
// where the kernel does not tell.
func UnixBacklog(path string) (n int, ok bool) {
	text, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return 0, false
	}
	return parseUnixBacklog(text, path), true
}

// parseUnixBacklog reads lines of "number: references protocol flags type state inode path".
func parseUnixBacklog(text []byte, path string) (n int) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) == 8 && string(words[5]) == connecting && string(words[6]) == "0" && string(words[7]) == path {
			n++
		}
	}
	return n
}
