package procfs

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
)

func TestParseUnread(t *testing.T) {
	const text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n" +
		"   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000007 00:00000000 00000000   110\n" + // listens
		"   1: 0100007F:0CEA 0100007F:D2F0 01 00000000:0000002C 00:00000000 00000000   110\n" +
		"   2: 0100007F:0CEA 0100007F:D2F1 01 0000002C:00000000 00:00000000 00000000   110\n" + // was read
		"   3: 0100007F:D2F0 0100007F:0CEA 01 00000000:00000001 00:00000000 00000000     0\n" + // the client's end
		"  44: 0100007F:0CEA 0100007F:D2F2 08 00000000:00000001 00:00000000 00000000   110\n" + // was closed
		"   5: 0000000000000000FFFF00000100007F:0CEA 0000000000000000FFFF00000100007F:D2F3 01 00000000:00000001 00:0\n" +
		"   6: 0CEA 01"
	if got := parseUnread(nil, []byte(text), 0x0cea); !slices.Equal(got, []int{0xd2f0, 0xd2f3}) {
		t.Errorf("%x", got)
	}
}

// A request is unread until somebody reads it.
func TestUnread(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("no /proc/self/net/tcp on this system")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	fmt.Fprint(client, "request")
	look := func() []int { return Unread(nil, int64(os.Getpid()), l.Addr().(*net.TCPAddr).Port) }
	until(t, "the request is not seen", func() bool { return slices.Equal(look(), []int{client.LocalAddr().(*net.TCPAddr).Port}) })
	if _, err := server.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if got := look(); len(got) != 0 {
		t.Errorf("%d were read and are seen", got)
	}
}

func FuzzParseUnread(f *testing.F) {
	f.Add([]byte("1: 0100007F:0CEA 0100007F:D2F0 01 00000000:0000002C 00"), 0xcea)
	f.Fuzz(func(t *testing.T, text []byte, port int) {
		for _, p := range parseUnread(nil, text, port) {
			if p <= 0 || p > 0xffff {
				t.Fatal(p)
			}
		}
	})
}
