package servers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// CPU returns the processor time that the server's processes have used, of those that
// ended too, to a tick each; 0 where the kernel does not tell.
func (s *Server) CPU() time.Duration { return Used(s.Pid()) }

// Used returns the processor time that a process, its children and those of both that
// ended have used, as CPU does.
func Used(process int) time.Duration {
	pid := strconv.Itoa(process)
	total := cpu(pid)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		total += cpu(child)
	}
	return total
}

// cpu is what a process and its ended children used: proc(5) says which fields of
// stat these are.
func cpu(pid string) (total time.Duration) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text[max(strings.LastIndexByte(string(text), ')'), 0):]), ")")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	for _, f := range fields[11:15] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err == nil {
			total += time.Duration(n) * tick
		}
	}
	return total
}
