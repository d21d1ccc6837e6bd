package procfs

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Age returns for how long a process has been there, to a tick of 10 ms. ok is false if there is no such process or no /proc. A number that
// a server tells may be that of another process here, if the server is on another machine or in another pid namespace: that one is as old only by chance.
func Age(pid int64) (age time.Duration, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/stat")
	if err != nil {
		return 0, false
	}
	began, ok := parseBegan(text)
	now, known := sinceBoot()
	return max(now-began, 0), ok && known
}

// parseBegan reads how long after the machine's start a process began, of "pid (name) state … starttime …", in which a name may hold anything.
func parseBegan(text []byte) (began time.Duration, ok bool) {
	_, rest, ok := cutLast(text, ')')
	fields := bytes.Fields(rest)
	const first, starttime = 3, 22 // of what is behind the name, counted from 1 as proc(5) does
	if !ok || len(fields) <= starttime-first {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[starttime-first]), 10, 64)
	if err != nil || n < 0 || n > int64(1<<62/tick) {
		return 0, false
	}
	return time.Duration(n) * tick, true
}
