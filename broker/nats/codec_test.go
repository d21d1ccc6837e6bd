package nats

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string // verb, fields, used, need or the error
	}{
		{"PING\r\n", "5 [] [] [] [] [] [] 0 6"},
		{"ping\nPONG", "5 [] [] [] [] [] [] 0 5"},
		{"PUB a.b 3\r\nxyz\r\n", "2 [a.b] [] [] [xyz] [] [] 0 16"},
		{"pub  a.b\tr  0 \r\n\r\n", "2 [a.b] [r] [] [] [] [] 0 18"},
		{"HPUB a 12 14\r\nNATS/1.0\r\n\r\nxy\r\n", "2 [a] [] [NATS/1.0\r\n\r\n] [xy] [] [] 0 30"},
		{"SUB a.* 7\r\n", "3 [a.*] [] [] [] [] [7] 0 11"},
		{"SUB a.> q 7\r\n", "3 [a.>] [] [] [] [q] [7] 0 13"},
		{"UNSUB 7 5\r\n", "4 [] [] [] [] [] [7] 5 11"},
		{"CONNECT {}\r\n", "1 [] [] [] [] [] [] 0 12"},
		{"PUB a 3\r\nxy", "need 14"},
		{"PUB a", "need 6"},
		{"", "need 1"},
		{"PUB a 3\r\nxyzuv", "Parser Error"},
		{"PUB a -1\r\n\r\n", "Parser Error"},
		{"PUB a 1000000000\r\n", "Parser Error"},
		{"PUB a 101\r\n", "Maximum Payload Violation"},
		{"PUB a\r\n", "Parser Error"},
		{"PUB a b c 3\r\n", "Parser Error"},
		{"HPUB a 5 3\r\n", "Parser Error"},
		{"HPUB a 0 3\r\n", "Parser Error"},
		{"SUB a\r\n", "Parser Error"},
		{"UNSUB 7 x\r\n", "Parser Error"},
		{"GET / HTTP/1.1\r\n", "Unknown Protocol Operation"},
		{"\x16\x03\x01\r\n", "Unknown Protocol Operation"},
		{strings.Repeat("x", maxLine), "maximum control line exceeded"},
	} {
		var c command
		used, need, err := parse([]byte(tt.in), 100, &c)
		got := fmt.Sprintf("%d [%s] [%s] [%s] [%s] [%s] [%s] %d %d", c.verb, c.subject, c.reply, c.header, c.payload, c.queue, c.sid, c.most, used)
		switch {
		case err != nil:
			got = err.Error()
		case need > 0:
			got = fmt.Sprint("need ", need)
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, tt := range []struct{ subject, topic, filter string }{
		{"a.b.c", "a/b/c", "a/b/c"}, {"a", "a", "a"}, {"a.b/c", "a/b.c", "a/b.c"}, {"/a", ".a", ".a"}, {"a*b", "a*b", "a*b"},
		{"a.*.c", "", "a/+/c"}, {"a.>", "", "a/+/#"}, {">", "", "+/#"}, {"*", "", "+"}, {"a.>.b", "", ""},
		{"", "", ""}, {".a", "", ""}, {"a.", "", ""}, {"a..b", "", ""}, {"a b", "", ""}, {"a+", "", ""}, {"#", "", ""}, {"a\x7f", "", ""},
	} {
		subject := []byte(tt.subject)
		topic := ""
		if toTopic(subject) {
			topic = string(subject)
		}
		filter, _ := toFilter([]byte(tt.subject))
		if topic != tt.topic || filter != tt.filter {
			t.Errorf("%q: topic %q, filter %q; want %q, %q", tt.subject, topic, filter, tt.topic, tt.filter)
		}
		if topic == "" {
			continue
		}
		if back, ok := appendSubject(nil, topic); !ok || string(back) != tt.subject {
			t.Errorf("topic %q has the subject %q, want %q", topic, back, tt.subject)
		}
	}
	for _, topic := range []string{"", "/a", "a/", "a//b", "a b", "*", "a/>", "a\n"} {
		if got, ok := appendSubject(nil, topic); ok {
			t.Errorf("topic %q has the subject %q, want none", topic, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		header, back string
		ok           bool
	}{
		{"NATS/1.0\r\nA: b\r\nC:d \r\na:\r\n\r\n", "NATS/1.0\r\nA: b\r\nC: d\r\na: \r\n\r\n", true},
		{"NATS/1.0 503\r\n\r\n", "", true},
		{"NATS/1.0\r\n\r\n", "", true},
		{"NATS/1.0\r\nA: b\r\n", "", false},
		{"NATS/1.0\r\nA b\r\n\r\n", "", false},
		{"NATS/1.0\r\n: b\r\n\r\n", "", false},
		{"NATS/1.0\r\nA: \xff\r\n\r\n", "", false},
		{"NATS/1.0\r\nA: b\r\n\r\nx", "", false},
		{"HTTP/1.0\r\n\r\n", "", false},
		{"NATS/1.0\r\nA: " + strings.Repeat("x", 1<<16) + "\r\n\r\n", "", false},
	} {
		properties, ok := appendProperties(nil, []byte("r/1"), []byte(tt.header))
		if ok != tt.ok {
			t.Errorf("%q: %v, want %v", tt.header, ok, tt.ok)
		}
		if !ok {
			continue
		}
		reply, n := extras(properties)
		back := ""
		if n > 0 {
			back = string(appendHeader(nil, properties))
		}
		if string(reply) != "r/1" || back != tt.back || n != len(back) {
			t.Errorf("%q: reply %q, %d bytes of header %q; want %q", tt.header, reply, n, back, tt.back)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"PUB a.b r 3\r\nxyz\r\n", "HPUB a 12 14\r\nNATS/1.0\r\n\r\nxy\r\n", "SUB a.> q 1\r\n", "UNSUB 1 2\r\n", "CONNECT {\"user\":1}\r\n", "PING\r\nPONG\r\n+OK\r\n-ERR 'x'\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var c command
		used, need, err := parse(in, 1000, &c)
		switch {
		case err != nil:
			return
		case need > 0:
			if need <= len(in) || used != 0 || need > len(in)+maxLine+1000 {
				t.Fatalf("%d bytes, used %d, need %d", len(in), used, need)
			}
			return
		case used <= 0 || used > len(in):
			t.Fatalf("used %d of %d", used, len(in))
		}
		// The rest of the input changes nothing.
		var alone command
		if n, need, err := parse(in[:used], 1000, &alone); n != used || need != 0 || err != nil || !bytes.Equal(alone.payload, c.payload) {
			t.Fatalf("alone it is %+v, %d, %d, %v", alone, n, need, err)
		}
		subject := bytes.Clone(c.subject)
		if toTopic(subject) {
			if back, ok := appendSubject(nil, subject); !ok || !bytes.Equal(back, c.subject) {
				t.Fatalf("%q comes back as %q", c.subject, back)
			}
		}
		_, _ = toFilter(c.subject)
		_, _ = appendProperties(nil, c.reply, c.header)
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add([]byte("a/b"), []byte("NATS/1.0\r\nA: b\r\nC: d\r\n\r\n"), []byte("\x26\x00\x01a\x00\x01b"))
	f.Fuzz(func(t *testing.T, reply, header, other []byte) {
		if len(reply) > 1000 {
			return
		}
		properties, ok := appendProperties(nil, reply, header)
		if !ok {
			properties = other // what no broker encodes must not panic either
		}
		_, n := extras(properties)
		if n > 0 {
			if got := appendHeader(nil, properties); len(got) != n {
				t.Fatalf("%d bytes of header, want %d", len(got), n)
			}
		}
	})
}
