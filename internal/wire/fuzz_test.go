package wire

import (
	"errors"
	"testing"
)

// What is accepted can be sent on, and means the same again.

func FuzzParseTags(f *testing.F) {
	f.Add([]byte{1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9, 2, 1, 'w', 6, 4, 0, 0, 0, 1})
	f.Add(Tags{Budget: 1, Total: Progress{2, 3}, Elapsed: Progress{1, 1}, Process: 7, Claim: 0.5}.Append(nil))
	f.Add(Tags{Token: Token{1, 2}}.Append(nil))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, msg []byte) {
		tags, err := ParseTags(msg)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrVersion) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		again, err := ParseTags(tags.Append(nil))
		if err != nil || again != tags {
			t.Fatalf("%+v became %+v, %v", tags, again, err)
		}
	})
}

func FuzzParseReply(f *testing.F) {
	f.Add(Reply{HasGrant: true, HasShed: true, HasProgress: true}.Append(nil))
	f.Add(Reply{HasShed: true, Resend: Resend{Token: Token{1}, After: 1}}.Append(nil))
	f.Add(Reply{Rate: 81.25, HasRate: true, Process: 7, Service: "shop", Workflow: "buy", Asker: 9}.Append(nil))
	f.Fuzz(func(t *testing.T, msg []byte) {
		reply, err := ParseReply(msg)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrVersion) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		again, err := ParseReply(reply.Append(nil))
		if err != nil || again != reply {
			t.Fatalf("%+v became %+v, %v", reply, again, err)
		}
	})
}

func FuzzFromHeader(f *testing.F) {
	f.Add("AQEI")
	f.Fuzz(func(t *testing.T, value string) {
		msg, err := FromHeader(value)
		if err == nil && Header(msg) != value {
			t.Fatalf("%q became %q", value, Header(msg))
		}
		if len(msg) > MaxLen {
			t.Fatalf("%d bytes", len(msg))
		}
	})
}

func FuzzParseBaggage(f *testing.F) {
	f.Add("a=b,spillgate.workflow=w%41;p=1,spillgate.class=interactive,spillgate.priority=7")
	f.Fuzz(func(t *testing.T, header string) {
		var tags Tags
		if err := ParseBaggage(header, &tags); err != nil {
			if tags != (Tags{}) || !errors.Is(err, ErrMalformed) {
				t.Fatalf("refused, %v, and yet set %+v", err, tags)
			}
			return
		}
		var again Tags
		if err := ParseBaggage(string(AppendBaggage(nil, "", tags)), &again); err != nil || again != tags {
			t.Fatalf("%+v became %+v, %v", tags, again, err)
		}
	})
}
