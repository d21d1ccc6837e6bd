package fastrpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output anew")

const vectorFile = "testdata/vectors.txt"

// vectors are frames by name, with what they say.
func vectors() []struct {
	name, says string
	frame      []byte
} {
	type vector = struct {
		name, says string
		frame      []byte
	}
	tags := wire.Tags{Workflow: "checkout", Process: 9}.Append(nil)
	grant := wire.Reply{Grant: wire.Grant{Epoch: 7, Seq: 41, Window: 8, Revive: 10 * time.Millisecond, Objective: time.Millisecond}, HasGrant: true}.Append(nil)
	least := request{method: 3, stream: 5}
	full := request{
		timed: true, method: 1, stream: 2<<16 | 6, budget: 1500 * time.Microsecond, waited: 250 * time.Microsecond,
		demand: 12, attempt: 1, class: work.Interactive, priority: 17, tags: tags,
	}
	done := response{stream: 2<<16 | 6, granted: true, seq: 42, window: 9}
	refused := response{stream: 5, status: statusRefused, reason: work.Delay, retryable: true, delay: 30 * time.Millisecond, granted: true, seq: 41, window: 8, reply: grant}
	failed := response{stream: 4, status: statusError, timed: true, queued: 1200, service: 90}
	return []vector{
		{"client preface", "versions 1 to 1, obeys grants, frames up to 1,049,116 bytes", preface{lowest: 1, highest: 1, credits: true, frame: 1049116}.append(nil)},
		{"server preface", "version 1, grants, frames up to 1,049,112 bytes, 1,024 lanes", preface{lowest: 1, highest: 1, credits: true, frame: 1049112, lanes: 1024}.append(nil)},
		{"method", "3 is store.Get", appendMethod(nil, 3, "store.Get")},
		{"request", "method 3, lane 5, nothing else, body k", least.append(nil, []byte("k"))},
		{"full request", "timed, method 1, turn 2 of lane 6, 1.5 ms left, waited 250 µs, demand 12, second attempt, interactive, priority 17, workflow checkout of process 9, body kv", full.append(nil, []byte("kv"))},
		{"response", "turn 2 of lane 6 is done, window 9 as of grant 42, body v", done.append(nil, []byte("v"))},
		{"refusal", "lane 5 is refused for its delay, again in 30 ms, window 8 as of grant 41, in full: epoch 7, revive 10 ms, objective 1 ms", refused.append(nil, nil)},
		{"failure", "lane 4 failed with code 258, no, after 1.2 µs of queue and 90 ns of service", failed.append(nil, []byte("\x00\x00\x01\x02no"))},
		{"cancel", "turn 2 of lane 6", appendShort(nil, kindCancel, 2<<16|6)},
		{"demand", "12 calls wait", appendShort(nil, kindDemand, 12)},
		{"grant", "as in the refusal", appendText(nil, kindGrant, grant)},
		{"drain", "back after 1 s", appendShort(nil, kindDrain, 1_000_000)},
		{"close", "why", appendText(nil, kindClose, []byte("why"))},
	}
}

// The vectors in the file are what this version writes, and it reads the same in them.
func TestVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Frames of fastrpc, version 1: name: what it says, then its bytes. FORMAT.md says what they mean.\n")
	for _, v := range vectors() {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", v.name, v.says, hex.EncodeToString(v.frame))
	}
	if *rewrite {
		if err := os.WriteFile(vectorFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s differs from what is written:\n%s", vectorFile, b.String())
	}
	again := reencode(t, have)
	for _, v := range vectors() {
		if !bytes.Equal(again[v.name], v.frame) {
			t.Errorf("%s is read, and written as %x, expected %x", v.name, again[v.name], v.frame)
		}
	}
}

// reencode reads the vectors of a file and writes them again.
func reencode(t *testing.T, file []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, block := range strings.Split(string(file), "\n\n")[1:] {
		title, digits, _ := strings.Cut(strings.TrimSpace(block), "\n")
		name, _, _ := strings.Cut(title, ":")
		f, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, "preface") {
			p, err := parsePreface(f)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out[name] = p.append(nil)
			continue
		}
		again, err := again(f[lengthLen:])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = again
	}
	return out
}

// again reads a frame without its length, and writes it with it.
func again(f []byte) ([]byte, error) {
	switch f[0] {
	case kindRequest:
		var r request
		body, err := parseRequest(f, &r)
		return r.append(nil, body), err
	case kindResponse:
		var r response
		body, err := parseResponse(f, &r)
		return r.append(nil, body), err
	case kindMethod:
		number, name, err := parseMethod(f)
		return appendMethod(nil, number, string(name)), err
	case kindCancel, kindDemand, kindDrain:
		v, err := parseShort(f)
		return appendShort(nil, f[0], v), err
	case kindClose:
		b, err := parseText(f, maxReason)
		return appendText(nil, f[0], b), err
	case kindGrant:
		b, err := parseText(f, wire.MaxLen)
		return appendText(nil, f[0], b), err
	}
	return nil, broken("kind %#x", f[0])
}

// What is accepted is written as it was read, but for bytes that mean nothing.
func FuzzFrame(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.frame)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePreface(b); err == nil {
			if q, err := parsePreface(p.append(nil)); err != nil || p != q {
				t.Fatalf("preface %+v became %+v, %v", p, q, err)
			}
		}
		in := inbox{conn: fixed{bytes.NewReader(b)}, limit: 1 << 16}
		for {
			frame, err := in.next()
			if err != nil {
				return
			}
			first, err := again(frame)
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatalf("unexpected kind of error: %v", err)
				}
				continue
			}
			second, err := again(first[lengthLen:])
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%x became %x, %v", first, second, err)
			}
		}
	})
}
