package classify_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/guard/etcd/keyrange"
)

// etcdCall is a call of etcd's with this message, of which the frame says that it is
// length bytes long.
func etcdCall(path string, message []byte, length int, encoding string) *http.Request {
	frame := make([]byte, 5)
	binary.BigEndian.PutUint32(frame[1:], uint32(length))
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(append(frame, message...)))
	r.Header.Set("Content-Type", "application/grpc")
	if encoding != "" {
		frame[0] = 1
		r.Body = io.NopCloser(bytes.NewReader(append(frame, message...)))
		r.Header.Set("Grpc-Encoding", encoding)
	}
	return r
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// What a message says counts, whatever came with it, and the next reader gets every byte.
func TestPeek(t *testing.T) {
	rules, err := classify.New(classify.Config{Rules: []classify.Rule{{Match: classify.Match{EtcdRange: []string{"", "/pods/"}}, Set: classify.Set{Use: classify.Use{Kind: "wide", AtOnce: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	const all, pods, one = "\n\x01\x00\x12\x01\x00", "\n\x06/pods/\x12\x06/pods0", "\n\x01k"
	large := all + "\x1a" + string(binary.AppendUvarint(nil, 1<<20)) + strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		r    *http.Request
		want string
	}{
		"all keys":      {etcdCall(keyrange.MethodRange, []byte(all), len(all), ""), "wide"},
		"below":         {etcdCall(keyrange.MethodDeleteRange, []byte(pods), len(pods), ""), "wide"},
		"one key":       {etcdCall(keyrange.MethodRange, []byte(one), len(one), ""), ""},
		"another call":  {etcdCall("/etcdserverpb.KV/Put", []byte(all), len(all), ""), ""},
		"in gzip":       {etcdCall(keyrange.MethodRange, zipped([]byte(all)), len(zipped([]byte(all))), "gzip"), "wide"},
		"other coding":  {etcdCall(keyrange.MethodRange, []byte(all), len(all), "snappy"), ""},
		"damaged gzip":  {etcdCall(keyrange.MethodRange, []byte(all), len(all), "gzip"), ""},
		"cut off":       {etcdCall(keyrange.MethodRange, []byte(all), 1<<31, ""), "wide"},
		"no frame":      {etcdCall(keyrange.MethodRange, nil, 0, ""), ""},
		"a large one":   {etcdCall(keyrange.MethodRange, []byte(large), len(large), ""), "wide"},
		"no gRPC":       {httptest.NewRequest(http.MethodPost, keyrange.MethodRange, strings.NewReader("\x00\x00\x00\x00\x06"+all)), ""},
		"without bytes": {httptest.NewRequest(http.MethodPost, keyrange.MethodRange, nil), ""},
	} {
		whole, err := io.ReadAll(tt.r.Body)
		if err != nil {
			t.Fatal(err)
		}
		tt.r.Body = io.NopCloser(bytes.NewReader(whole))
		rules.Peek(tt.r)
		out, err := rules.Stamp(0, tt.r, nil, false)
		if err != nil || out.Use.Kind != tt.want {
			t.Errorf("%s: %+v, %v, expected kind %q", name, out, err, tt.want)
		}
		if got, err := io.ReadAll(tt.r.Body); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%s: %d bytes are left of %d, %v", name, len(got), len(whole), err)
		}
	}
}

// FuzzPeek: whatever is sent, nothing fails and every byte is there for the next reader.
func FuzzPeek(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x06\n\x01\x00\x12\x01\x00"), "")
	f.Add(append([]byte("\x01\x00\x00\x00\xff"), zipped([]byte("\n\x01\x00\x12\x01\x00"))...), "gzip")
	rules, err := classify.New(classify.Config{Rules: []classify.Rule{{Match: classify.Match{EtcdRange: []string{"a"}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		r := httptest.NewRequest(http.MethodPost, keyrange.MethodTxn, bytes.NewReader(body))
		r.Header["Content-Type"], r.Header["Grpc-Encoding"] = []string{"application/grpc"}, []string{encoding}
		rules.Peek(r)
		rules.Stamp(0, r, nil, false)
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%q is left of %q, %v", got, body, err)
		}
	})
}
