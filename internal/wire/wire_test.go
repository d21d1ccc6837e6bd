package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/work"
)

// The vectors are lines "name  hex  tags|reply  expected". They are an interface
// and are not rewritten by a flag: a change here is a change of the version.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, "|", 4)
		if len(parts) != 4 {
			t.Fatalf("vector %q: expected kind|name|hex|meaning", line)
		}
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		kind, name, digits, want := parts[0], parts[1], parts[2], parts[3]
		t.Run(kind+"/"+strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			msg, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			var got string
			var again []byte
			switch kind {
			case "tags":
				var v Tags
				v, err = ParseTags(msg)
				got, again = fmt.Sprintf("%+v", v), v.Append(nil)
			case "reply":
				var v Reply
				v, err = ParseReply(msg)
				got, again = fmt.Sprintf("%+v", v), v.Append(nil)
			default:
				t.Fatalf("kind %q", kind)
			}
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", digits, got, want)
			}
			if strings.HasPrefix(name, "canonical") && !bytes.Equal(again, msg) {
				t.Errorf("encoded again\n got %x\nwant %x", again, msg)
			}
		})
		n++
	}
	if n < 30 {
		t.Errorf("%d vectors, expected at least 30", n)
	}
}

func drawToken(t *rapid.T) (token Token) {
	copy(token[:], rapid.SliceOfN(rapid.Byte(), 0, len(token)).Draw(t, "token"))
	return token
}

func drawTags(t *rapid.T) Tags {
	tags := Tags{
		Budget:   time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "budget")),
		Workflow: rapid.StringMatching(`[a-zA-Z0-9./_:+-]{0,64}`).Draw(t, "workflow"),
		Class:    work.Class(rapid.IntRange(0, int(work.NumClasses)-1).Draw(t, "class")),
		Priority: work.Priority(rapid.IntRange(0, int(work.MaxPriority)).Draw(t, "priority")),
		Attempt:  rapid.IntRange(0, 255).Draw(t, "attempt"),
		Credits:  rapid.Bool().Draw(t, "credits"),
		Client:   rapid.Uint64().Draw(t, "client"),
		Total:    drawProgress(t, "total"),
		Elapsed:  drawProgress(t, "elapsed"),
		Process:  rapid.Uint64().Draw(t, "process"),
		Claim:    float64(rapid.Uint64Range(0, MaxRate*rateUnit).Draw(t, "claim")) / rateUnit,
		Waited:   time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "waited")),
		Token:    drawToken(t),
	}
	if tags.Credits {
		tags.Demand = rapid.IntRange(0, MaxCount).Draw(t, "demand")
	}
	return tags
}

func drawProgress(t *rapid.T, name string) Progress {
	service := rapid.Int64Range(0, int64(MaxDuration)).Draw(t, name+" service")
	return Progress{time.Duration(service), time.Duration(rapid.Int64Range(service, int64(MaxDuration)).Draw(t, name+" work"))}
}

func drawReply(t *rapid.T) Reply {
	d := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, name))
	}
	var r Reply
	if r.HasGrant = rapid.Bool().Draw(t, "grant"); r.HasGrant {
		r.Grant = Grant{rapid.Uint32().Draw(t, "epoch"), rapid.Uint32().Draw(t, "seq"),
			rapid.Uint32Range(0, MaxCount).Draw(t, "window"), d("revive"), d("objective"),
			float64(rapid.Uint64Range(0, MaxRate*rateUnit).Draw(t, "part")) / rateUnit}
	}
	if r.HasShed = rapid.Bool().Draw(t, "shed"); r.HasShed {
		r.Shed = Shed{Reason: work.Reason(rapid.IntRange(0, work.NumReasons-1).Draw(t, "reason")), Pushback: -1}
		if r.Shed.Retryable = rapid.Bool().Draw(t, "retryable"); r.Shed.Retryable {
			r.Shed.Pushback = d("pushback")
		}
	}
	if r.Resend.Token = drawToken(t); r.Resend.Token != (Token{}) {
		r.Resend.After = d("after")
	}
	if r.HasProgress = rapid.Bool().Draw(t, "progress"); r.HasProgress {
		r.Progress = drawProgress(t, "progress")
	}
	if r.HasRate = rapid.Bool().Draw(t, "has rate"); r.HasRate {
		r.Rate = float64(rapid.Uint64Range(0, MaxRate*rateUnit).Draw(t, "rate")) / rateUnit
	}
	r.Process = rapid.Uint64().Draw(t, "process")
	r.Service = rapid.StringMatching(`[a-zA-Z0-9./_:+-]{0,64}`).Draw(t, "name")
	r.Workflow = rapid.StringMatching(`[a-zA-Z0-9./_:+-]{0,64}`).Draw(t, "workflow")
	r.Asker = rapid.Uint64().Draw(t, "asker")
	return r
}

func TestTagsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTags(t)
		got, err := ParseTags(want.Append(nil))
		if err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawReply(t)
		got, err := ParseReply(want.Append(nil))
		if err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// Whatever a program puts into the structs, the message is valid.
func TestAppendBringsIntoRange(t *testing.T) {
	tags := Tags{Budget: -time.Hour, Workflow: "two words", Class: 77, Priority: 255, Attempt: 1 << 40, Credits: true, Demand: -5}
	got, err := ParseTags(tags.Append(nil))
	if want := (Tags{Budget: 1, Priority: 127, Attempt: 255, Credits: true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	tags = Tags{Budget: math.MaxInt64, Attempt: -1, Demand: math.MaxInt, Credits: true,
		Total: Progress{-1, math.MaxInt64}, Elapsed: Progress{time.Second, math.MinInt64}}
	got, err = ParseTags(tags.Append(nil))
	if want := (Tags{Credits: true, Demand: MaxCount, Total: Progress{0, MaxDuration}, Elapsed: Progress{time.Second, time.Second}}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	reply := Reply{
		HasGrant: true, Grant: Grant{Window: math.MaxUint32, Revive: -1},
		HasShed: true, Shed: Shed{Reason: 200, Retryable: true, Pushback: math.MaxInt64},
		HasProgress: true, Progress: Progress{Service: -1, Work: math.MaxInt64},
	}
	gotReply, err := ParseReply(reply.Append(nil))
	want := Reply{
		HasGrant: true, Grant: Grant{Window: MaxCount},
		HasShed: true, Shed: Shed{Retryable: true, Pushback: MaxDuration},
		HasProgress: true, Progress: Progress{Work: MaxDuration},
	}
	if err != nil || gotReply != want {
		t.Errorf("got %+v, %v, want %+v", gotReply, err, want)
	}
}

// A rate is rounded down, so that what is announced to all does not exceed what
// there is; what is no number is not announced.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		rate, want float64
		has        bool
	}{
		{100, 100, true}, {1.0 / 1024, 1.0 / 1024, true}, {1.9 / 1024, 1.0 / 1024, true}, {99.9999, 99.9990234375, true},
		{1e-9, 0, true}, {0, 0, true}, {-5, 0, true}, {math.Inf(-1), 0, true},
		{MaxRate, MaxRate, true}, {1e300, MaxRate, true}, {math.Inf(1), MaxRate, true}, {math.NaN(), 0, false},
	} {
		got, err := ParseReply(Reply{Rate: tt.rate, HasRate: true, Service: "two words"}.Append(nil))
		if want := (Reply{Rate: tt.want, HasRate: tt.has}); err != nil || got != want {
			t.Errorf("%v: %+v, %v, want %v", tt.rate, got, err, tt.want)
		}
	}
}

// Cutting a message anywhere gives an error, but between two fields.
func TestEveryTruncationIsNoticed(t *testing.T) {
	tags := Tags{Budget: time.Second, Workflow: "shop", Class: work.Interactive, Priority: 3, Attempt: 1, Credits: true, Demand: 9, Client: 7,
		Total: Progress{2, 3}, Elapsed: Progress{0, 1}, Process: 5}
	msg := tags.Append(nil)
	whole := map[int]bool{1: true, len(msg): true}
	for i := 1; i < len(msg); i += 2 + int(msg[i+1]) {
		whole[i] = true
	}
	for i := range len(msg) + 1 {
		_, err := ParseTags(msg[:i])
		if (err == nil) != whole[i] {
			t.Errorf("the first %d of %d bytes: %v", i, len(msg), err)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d bytes: %v does not wrap ErrMalformed", i, err)
		}
	}
	reply := Reply{HasGrant: true, Grant: Grant{Objective: 1, Part: 1}, HasShed: true, HasProgress: true, Rate: 5, HasRate: true, Process: 7, Service: "shop"}
	msg = reply.Append(nil)
	whole = map[int]bool{1: true, len(msg): true}
	for i := 1; i < len(msg); i += 2 + int(msg[i+1]) {
		whole[i] = true
	}
	for i := range len(msg) + 1 {
		if _, err := ParseReply(msg[:i]); (err == nil) != whole[i] {
			t.Errorf("the first %d of %d bytes: %v", i, len(msg), err)
		}
	}
}

func TestOverlongIsRefusedUnread(t *testing.T) {
	msg := append([]byte{Version, 200, 255}, make([]byte, 255)...)
	msg = append(append(msg, 201, 251), make([]byte, 251)...)
	if len(msg) != MaxLen-1 {
		t.Fatal(len(msg))
	}
	if _, err := ParseTags(msg); err != nil {
		t.Errorf("%d bytes of unknown fields: %v", len(msg), err)
	}
	msg = append(msg, 202, 0)
	if _, err := ParseTags(msg); !errors.Is(err, ErrMalformed) {
		t.Errorf("%d bytes: %v, expected to be refused", len(msg), err)
	}
}

func TestHeader(t *testing.T) {
	msg := Tags{Workflow: "shop", Credits: true}.Append(nil)
	got, err := FromHeader(Header(msg))
	if err != nil || !bytes.Equal(got, msg) {
		t.Errorf("got %x, %v, want %x", got, err, msg)
	}
	for _, bad := range []string{"AQ==", "A", "A Q", "AR", "A+/B", strings.Repeat("A", 700)} {
		if got, err := FromHeader(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %x, %v, expected to be refused", bad, got, err)
		}
	}
}

func TestBaggage(t *testing.T) {
	tests := []struct {
		header string
		want   Tags
		bad    bool
	}{
		{"", Tags{}, false},
		{"a=b, spillgate.workflow=shop/buy;x=1 , spillgate.class=interactive,spillgate.priority=12", Tags{Workflow: "shop/buy", Class: work.Interactive, Priority: 12}, false},
		{"spillgate.workflow=a%2Db", Tags{Workflow: "a-b"}, false},
		{"spillgate.workflow=a%20b", Tags{}, true},
		{"spillgate.workflow=a%2", Tags{}, true},
		{"spillgate.workflow", Tags{}, true},
		{"spillgate.class=root", Tags{}, true},
		{"spillgate.priority=-1", Tags{}, true},
		{"spillgate.priority=128", Tags{}, true},
		{"spillgate.priority=1,spillgate.priority=1", Tags{}, true},
		{"spillgate.workflow=ok,spillgate.class=root", Tags{}, true},
		{",,;=,", Tags{}, false},
		{strings.Repeat("a", 8193), Tags{}, true},
	}
	for _, tt := range tests {
		var got Tags
		err := ParseBaggage(tt.header, &got)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("%.60q: %+v, %v, want %+v, refused %v", tt.header, got, err, tt.want, tt.bad)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%.60q: %v does not wrap ErrMalformed", tt.header, err)
		}
	}
}

func TestBaggageReplacesOursAndKeepsTheRest(t *testing.T) {
	got := string(AppendBaggage(nil, "user=7;p=1, spillgate.class=interactive,spillgate.priority=9 ,t=x", Tags{Workflow: "w", Priority: 3}))
	if want := "user=7;p=1,t=x,spillgate.workflow=w,spillgate.priority=3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := AppendBaggage(nil, "", Tags{}); len(got) != 0 {
		t.Errorf("nothing to say, got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		tags := drawTags(t)
		tags = Tags{Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority}
		var got Tags
		if err := ParseBaggage(string(AppendBaggage(nil, "other=1", tags)), &got); err != nil || got != tags {
			t.Fatalf("got %+v, %v, want %+v", got, err, tags)
		}
	})
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, MaxLen)
	tags := Tags{Budget: time.Second, Workflow: "shop", Class: work.Interactive, Credits: true, Demand: 9, Client: 7,
		Total: Progress{2, 3}, Elapsed: Progress{1, 1}, Process: 5}
	reply := Reply{HasGrant: true, Grant: Grant{Objective: 1, Part: 1}, HasShed: true, Shed: Shed{Retryable: true}, HasProgress: true, Rate: 81.25, HasRate: true, Process: 7}
	var sink int
	if n := testing.AllocsPerRun(100, func() { sink += len(tags.Append(buf)) + len(reply.Append(buf)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	msg := reply.Append(nil)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ParseReply(msg); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("decoding a reply: %v allocations", n)
	}
}

func TestNewerWrapsAround(t *testing.T) {
	old, young := Grant{Seq: math.MaxUint32}, Grant{Seq: 2}
	if !young.Newer(old) || old.Newer(young) || old.Newer(old) {
		t.Error("sequence numbers must be compared around the wrap")
	}
}

func BenchmarkTags(b *testing.B) {
	buf := make([]byte, 0, MaxLen)
	tags := Tags{Budget: time.Second, Credits: true, Demand: 9}
	for b.Loop() {
		if _, err := ParseTags(tags.Append(buf)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLongestMessages: what MaxTags and MaxReply promise, so that buffers of that
// size do.
func TestLongestMessages(t *testing.T) {
	name := strings.Repeat("w", MaxWorkflow)
	long := Progress{MaxDuration, MaxDuration}
	tags := Tags{Budget: 1, Workflow: name, Class: 1, Priority: 1, Attempt: 1, Credits: true, Demand: 1, Asks: true, Client: 1, Total: long, Elapsed: long, Process: 1, Claim: MaxRate, Waited: MaxDuration, Token: Token{1}}
	if MaxTags > MaxLen*3/8 || MaxReply > MaxLen*3/8 {
		t.Errorf("%d and %d bytes of %d leave little room for fields to come", MaxTags, MaxReply, MaxLen)
	}
	if n := len(tags.Append(nil)); n != MaxTags {
		t.Errorf("the longest tags have %d bytes, MaxTags is %d", n, MaxTags)
	}
	reply := Reply{HasGrant: true, Grant: Grant{Objective: 1, Part: 1}, HasShed: true, HasProgress: true, Progress: long, HasRate: true, Rate: 1, Process: 1, Service: name, Resend: Resend{Token: Token{1}}}
	if n := len(reply.Append(nil)); n != MaxReply {
		t.Errorf("the longest reply has %d bytes, MaxReply is %d", n, MaxReply)
	}
	var buf [MaxTags]byte
	if n := testing.AllocsPerRun(100, func() { tags.Append(buf[:0]) }); n != 0 {
		t.Errorf("%v allocations for the longest tags", n)
	}
}

// TestClaimsThatAreNone: what is no claim does not travel as one.
func TestClaimsThatAreNone(t *testing.T) {
	for claim, want := range map[float64]float64{-1: 0, 0: 0, math.Inf(-1): 0, math.Inf(1): MaxRate, 1e300: MaxRate, 0.5: 0.5, 1e-9: 0} {
		got, err := ParseTags(Tags{Claim: claim}.Append(nil))
		if err != nil || got.Claim != want {
			t.Errorf("a claim of %v arrives as %v, %v, expected %v", claim, got.Claim, err, want)
		}
	}
	if got, err := ParseTags(Tags{Claim: math.NaN()}.Append(nil)); err != nil || got.Claim != 0 {
		t.Errorf("no number arrives as %v, %v", got.Claim, err)
	}
}
