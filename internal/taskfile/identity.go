package taskfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Place is where instants and process ids of a file mean something.
type Place struct {
	// Boot is the system's boot id.
	Boot [16]byte
	// PIDNamespace is the inode of the pid namespace.
	PIDNamespace uint64
}

// Token names one process until the next boot: its start time in clock ticks,
// times 2²², plus its process id.
type Token uint64

const pidBits = 22 // the kernel's limit of process ids is 4,194,304

// nameReady is the state of a complete name. No token has this bit.
const nameReady = 1 << 63

// PID returns the process id.
func (t Token) PID() int { return int(t & (1<<pidBits - 1)) }

// here returns the place of this process, and its token.
func here() (Place, Token, error) {
	var p Place
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, 0, fmt.Errorf("taskfile: cannot read the boot id, which tells old files from new ones: %w", err)
	}
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", ""))
	if err != nil || len(id) != len(p.Boot) {
		return p, 0, fmt.Errorf("taskfile: the boot id is %q, expected a UUID", boot)
	}
	copy(p.Boot[:], id)
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return p, 0, fmt.Errorf("taskfile: cannot read the pid namespace: %w", err)
	}
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
	if p.PIDNamespace, err = strconv.ParseUint(inode, 10, 64); err != nil {
		return p, 0, fmt.Errorf("taskfile: the pid namespace is %q, expected pid:[number]", link)
	}
	self, ok := tokenOf(os.Getpid())
	if !ok {
		return p, 0, errors.New("taskfile: cannot read this process's start time from /proc/self/stat")
	}
	return p, self, nil
}

// tokenOf returns the token of a live process.
func tokenOf(pid int) (Token, bool) {
	token, ended, ok := statOf(pid)
	return token, ok && (!ended || otherThreads(pid))
}

// statOf returns the token of a process, and whether its first thread has ended.
func statOf(pid int) (token Token, ended, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, false
	}
	return parseStat(stat, pid)
}

// otherThreads reports whether a process whose first thread has ended has others that go on. One that is
// gone, and that its parent has not noticed yet, has none.
func otherThreads(pid int) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return err == nil && len(threads) > 1
}

// parseStat reads the start time of a process from its stat line, and whether its first thread has ended. The
// command's name, field 2, may hold spaces and parentheses, so fields count
// from the last parenthesis.
func parseStat(stat []byte, pid int) (token Token, ended, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 || pid <= 0 || pid >= 1<<pidBits {
		return 0, false, false
	}
	fields := bytes.Fields(stat[end+1:])
	const state, start = 0, 22 - 3
	if len(fields) <= start || len(fields[state]) != 1 {
		return 0, false, false
	}
	ticks, err := strconv.ParseUint(string(fields[start]), 10, 63-pidBits)
	if err != nil {
		return 0, false, false
	}
	s := fields[state][0]
	return Token(ticks<<pidBits | uint64(pid)), s == 'Z' || s == 'X', true
}

// alive reports whether the process that a token names still runs.
func (t Token) alive() bool {
	if t == 0 || t&nameReady != 0 {
		return false
	}
	now, ok := tokenOf(t.PID())
	return ok && now == t
}
