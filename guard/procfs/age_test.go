package procfs

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process is as old as it is, whatever it is called.
func TestAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 1234 5 6":        12340 * time.Millisecond,
		"7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 x 5 6":                 -1,
		"7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 -1 5":                  -1,
		"7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 9999999999999999999 5": -1,
		"7 (a) S 1": -1, "": -1,
	} {
		if got, ok := parseBegan([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v; expected %v", text, got, ok, want)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	began := time.Now()
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	}()
	time.Sleep(50 * time.Millisecond)
	age, ok := Age(int64(sleep.Process.Pid))
	if most := time.Since(began) + 2*tick; !ok || age < 50*time.Millisecond-2*tick || age > most {
		t.Errorf("%v, %v; expected 50 ms to %v", age, ok, most)
	}
	if _, ok := Age(-1); ok {
		t.Error("a process -1 has an age")
	}
}

// A connection is in the network in which both ends are.
func TestConnected(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("no /proc/self/net/tcp on this system")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := int64(os.Getpid())
	if client := c.LocalAddr().(*net.TCPAddr).Port; !Connected(pid, client) || Connected(-1, client) || Connected(pid, 0) {
		t.Errorf("a connection from port %d: %v, of no process %v, of no port %v", client, Connected(pid, client), Connected(-1, client), Connected(pid, 0))
	}
}
