package keyrange

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is the bytes of fields, by number.
func message(parts ...any) (b []byte) {
	for i := 0; i < len(parts); i += 2 {
		n := protowire.Number(parts[i].(int))
		switch v := parts[i+1].(type) {
		case string:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), []byte(v))
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		}
	}
	return b
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		key, end, prefix string
		want             bool
	}{
		{"a", "", "a", false}, // one key
		{"\x00", "\x00", "", true},
		{"", "\x00", "", true},
		{"a", "\x00", "", false},
		{"a", "\x00", "a", true},
		{"a", "\x00", "b", true},
		{"b", "\x00", "a", false},
		{"/pods/", "/pods0", "/pods/", true},
		{"/pods/", "/pods0", "/pods/kube/", true},
		{"/pods/kube/", "/pods/kube0", "/pods/", false},
		{"/pods/a", "/pods0", "/pods/", false}, // the rest of a list
		{"/", "0", "/pods/", true},
		{"\x00", "/pods/", "/pods/", false}, // ends where they begin
		{"\x00", "/pods", "/pods/", false},
		{"\x00", "/pods/z", "/pods/", false},
		{"\x00", "/q", "/pods/", true},
		{"\x00", "/", "/pods/", false},
		{"a\xff", "b", "a\xff", true},
		{"a\xff", "a\xff\xff", "a\xff", false},
		{"\xff", "\x00", "\xff", true},
		{"\xff", "\xff\xff", "\xff", false},
		{"k", "k\x00", "k", false}, // a range of one key
	} {
		if got := (Range{[]byte(tt.key), []byte(tt.end)}).Covers(tt.prefix); got != tt.want {
			t.Errorf("[%q, %q) covers %q: %v, expected %v", tt.key, tt.end, tt.prefix, got, tt.want)
		}
	}
}

func TestEach(t *testing.T) {
	whole := message(1, "\x00", 2, "\x00", 9, 1)
	one := message(1, "k")
	put := message(1, "k", 2, "v")
	pods := message(1, "/pods/", 2, "/pods0", 3, 500)
	for name, tt := range map[string]struct {
		method string
		in     []byte
		want   string
	}{
		"a key":                 {MethodRange, one, ""},
		"everything":            {MethodRange, whole, "[\x00,\x00)"},
		"with a limit":          {MethodRange, pods, "[/pods/,/pods0)"},
		"fields in other order": {MethodRange, message(9, 1, 2, "b", 1, "a"), "[a,b)"},
		"the last counts":       {MethodRange, message(1, "x", 1, "a", 2, "b"), "[a,b)"},
		"unknown fields":        {MethodRange, append(message(77, "x", 78, 9), pods...), "[/pods/,/pods0)"},
		"a put":                 {"/etcdserverpb.KV/Put", put, ""},
		"a delete":              {MethodDeleteRange, message(1, "a", 2, "b"), "[a,b)"},
		"a transaction": {MethodTxn, message(1, string(message(3, "c", 64, "d")), 2, string(message(2, string(put))), 2, string(message(1, string(pods))),
			3, string(message(3, string(whole)))), "[c,d)[/pods/,/pods0)[\x00,\x00)"},
		"one in another": {MethodTxn, message(2, string(message(4, string(message(2, string(message(1, string(pods)))))))), "[/pods/,/pods0)"},
		"nothing":        {MethodTxn, nil, ""},
		"cut off":        {MethodTxn, message(2, string(message(1, string(pods))), 2, strings.Repeat("x", 100))[:30], "[/pods/,/pods0)"},
	} {
		got := ""
		Each(tt.method, tt.in, func(r Range) bool {
			got += "[" + string(r.Key) + "," + string(r.End) + ")"
			return true
		})
		if got != tt.want {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
	}
	calls := 0
	if Each(MethodTxn, message(2, string(message(1, string(pods))), 2, string(message(1, string(pods)))), func(Range) bool { calls++; return false }) || calls != 1 {
		t.Errorf("%d calls after one that returned false", calls)
	}
	if n := testing.AllocsPerRun(100, func() { Each(MethodRange, whole, func(r Range) bool { return !r.Covers("") }) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWrites: a transaction that only reads in all of its branches writes nothing.
func TestWrites(t *testing.T) {
	get, put := message(1, string(message(1, "a", 2, "b"))), message(2, string(message(1, "k", 2, "v")))
	deep := put
	for range 20 {
		deep = message(4, string(message(2, string(deep))))
	}
	for name, tt := range map[string]struct {
		txn  []byte
		want bool
	}{
		"nothing":               {nil, false},
		"conditions":            {message(1, string(message(3, "c", 64, "d"))), false},
		"reads":                 {message(2, string(get), 3, string(get)), false},
		"a put":                 {message(2, string(put)), true},
		"a put if it fails":     {message(2, string(get), 3, string(put)), true},
		"a delete":              {message(2, string(message(3, string(message(1, "k"))))), true},
		"a put inside":          {message(2, string(message(4, string(message(3, string(put)))))), true},
		"reads inside":          {message(2, string(message(4, string(message(3, string(get)))))), false},
		"too deep to be looked": {message(2, string(deep)), true},
	} {
		if got := Writes(tt.txn); got != tt.want {
			t.Errorf("%s: %v, expected %v", name, got, tt.want)
		}
	}
}

// FuzzEach: no bytes make it fail, and each range that is told lies in the message.
func FuzzEach(f *testing.F) {
	f.Add(uint8(0), message(1, "\x00", 2, "\x00", 9, 1), "")
	f.Add(uint8(1), message(2, string(message(1, string(message(1, "a", 2, "b"))))), "a")
	f.Add(uint8(2), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, "\xff")
	f.Fuzz(func(t *testing.T, which uint8, in []byte, prefix string) {
		method := []string{MethodRange, MethodTxn, MethodDeleteRange}[which%3]
		Each(method, in, func(r Range) bool {
			if r.Single() || len(r.Key)+len(r.End) > len(in) {
				t.Errorf("%q has [%q, %q)", in, r.Key, r.End)
			}
			if r.Covers(prefix) && !r.Covers(prefix+"x") {
				t.Errorf("[%q, %q) covers %q and not %qx", r.Key, r.End, prefix, prefix)
			}
			return true
		})
	})
}
