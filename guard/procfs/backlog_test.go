package procfs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestParseBacklog(t *testing.T) {
	const text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:0050 00000000:0000 0A 00000000:00000002 00:00000000 00000000 0 0 17 1\n" + // listens
		"   1: 0100007F:0050 0100007F:D2F0 01 00000000:0000002C 00:00000000 00000000 0 0 0 1\n" +
		"   2: 0100007F:0050 0100007F:D2F1 01 00000000:00000000 00:00000000 00000000 0 0 0 1\n" + // has sent nothing
		"   3: 0100007F:0050 0100007F:D2F2 01 00000000:0000002C 00:00000000 00000000 0 0 99 1\n" + // was accepted
		"   4: 0100007F:0050 0100007F:D2F3 08 00000000:0000002C 00:00000000 00000000 0 0 0 1\n" + // has gone
		"   5: 0100007F:0051 0100007F:D2F4 01 00000000:0000002C 00:00000000 00000000 0 0 0 1\n" +
		"   6: 0100007F:0052 0100007F:D2F4 01 00000000:0000002C 00:00000000 00000000 0 0 0 1\n   7: 01"
	got := parseBacklog(nil, []byte(text), []int{0x50, 0x51})
	if len(got) != 2 || got[0].Port != 0x50 || got[1].Port != 0x51 || got[0].Client == got[1].Client {
		t.Errorf("%+v, expected one each at the ports 80 and 81", got)
	}
	const unix = "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 19 /s\n" +
		"0000000000000000: 00000002 00000000 00000000 0001 02 0 /s\n" +
		"0000000000000000: 00000002 00000000 00000000 0001 02 0 /other\n" +
		"0000000000000000: 00000003 00000000 00000000 0001 03 20 /s\n"
	if n := parseUnixBacklog([]byte(unix), "/s"); n != 1 {
		t.Errorf("%d at /s, expected 1", n)
	}
}

// What nobody accepts is in the queue until somebody does.
func TestBacklog(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("no /proc/self/net/tcp on this system")
	}
	for _, network := range []string{"tcp", "unix"} {
		at := "127.0.0.1:0"
		if network == "unix" {
			at = filepath.Join(t.TempDir(), "s")
		}
		listen, address := listening(t, network, at)
		client, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		fmt.Fprint(client, "request")
		look := func() int {
			if network == "unix" {
				n, _ := UnixBacklog(address)
				return n
			}
			_, port, _ := net.SplitHostPort(address)
			n := 0
			_, _ = fmt.Sscan(port, &n)
			return len(Backlog(nil, 0, n))
		}
		until(t, network+": not seen", func() bool { return look() == 1 })
		if network == "tcp" { // and the file tells the same
			n := 0
			_, port, _ := net.SplitHostPort(address)
			_, _ = fmt.Sscan(port, &n)
			if plain := parseBacklog(nil, content(t, "/proc/self/net/tcp"), []int{n}); len(plain) != 1 {
				t.Errorf("/proc/self/net/tcp has %d, expected 1", len(plain))
			}
		}
		fd, _, err := syscall.Accept(listen)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		until(t, network+": seen although it was accepted", func() bool { return look() == 0 })
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) { // which only ends a hang
		if ok() {
			return
		}
	}
	t.Fatal(what)
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// listening returns a socket that listens and accepts nothing by itself.
func listening(t *testing.T, network, address string) (fd int, at string) {
	t.Helper()
	family, sa := syscall.AF_UNIX, syscall.Sockaddr(&syscall.SockaddrUnix{Name: address})
	if network == "tcp" {
		family, sa = syscall.AF_INET, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Bind(fd, sa)
	}
	if err == nil {
		err = syscall.Listen(fd, 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if network == "unix" {
		return fd, address
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

func FuzzParseBacklog(f *testing.F) {
	f.Add([]byte("1: 0100007F:0050 0100007F:D2F0 01 00000000:0000002C 00 0 0 0 0 1"), []byte("x: 2 0 0 1 02 0 /s"), 0x50)
	f.Fuzz(func(t *testing.T, tcp, unix []byte, port int) {
		for _, p := range parseBacklog(nil, tcp, []int{port}) {
			if p.Port != port || port < 0 || port > 0xffff {
				t.Fatalf("%+v of port %d", p, port)
			}
		}
		if n := parseUnixBacklog(unix, "/s"); n < 0 || n > len(unix) {
			t.Fatal(n)
		}
	})
}
