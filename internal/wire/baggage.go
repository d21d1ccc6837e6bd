package wire

import (
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/internal/work"
)

// The baggage members that are Spillgate's. Class is "default" or
// "interactive", priority a decimal number from 0 to 127.
const (
	BaggageWorkflow = "spillgate.workflow"
	BaggageClass    = "spillgate.class"
	BaggagePriority = "spillgate.priority"
)

// maxBaggage is the longest baggage that is looked at, in bytes: what the W3C
// recommendation requires a platform to propagate.
const maxBaggage = 8192

// ParseBaggage sets the workflow, class and priority in t that a W3C baggage
// header names, and leaves the rest of t alone. Members of others are skipped.
// The error wraps ErrMalformed, and t is then unchanged.
func ParseBaggage(header string, t *Tags) error {
	if len(header) > maxBaggage {
		return malformed("baggage has %d bytes, expected at most %d", len(header), maxBaggage)
	}
	out := *t
	var seen [3]bool
	once := func(i int, key string) error {
		if seen[i] {
			return malformed("baggage %s comes twice", key)
		}
		seen[i] = true
		return nil
	}
	for member := range strings.SplitSeq(header, ",") {
		member, _, _ = strings.Cut(member, ";") // properties
		key, value, _ := strings.Cut(member, "=")
		key, value = strings.Trim(key, " \t"), strings.Trim(value, " \t")
		var err error
		switch key {
		case BaggageWorkflow:
			err = once(0, key)
			name, ok := unescape(value)
			if err == nil && (!ok || !ValidWorkflow(name)) {
				err = malformed("baggage %s is %.80q, expected 1 to %d visible ASCII characters without , ; = %% \" \\", key, value, MaxWorkflow)
			}
			out.Workflow = name
		case BaggageClass:
			err = once(1, key)
			switch value {
			case work.Default.String():
				out.Class = work.Default
			case work.Interactive.String():
				out.Class = work.Interactive
			default:
				err = malformed("baggage %s is %.80q, expected %q or %q", key, value, work.Default, work.Interactive)
			}
		case BaggagePriority:
			err = once(2, key)
			n, errNumber := strconv.ParseUint(value, 10, 8)
			if err == nil && (errNumber != nil || n > uint64(work.MaxPriority)) {
				err = malformed("baggage %s is %.80q, expected 0 to %d", key, value, work.MaxPriority)
			}
			out.Priority = work.Priority(n)
		}
		if err != nil {
			return err
		}
	}
	*t = out
	return nil
}

// AppendBaggage appends the members of the W3C baggage header that are not
// Spillgate's, then those that t has something to say for. The result may be
// longer than what others propagate, and is empty if there is nothing to say.
func AppendBaggage(dst []byte, header string, t Tags) []byte {
	start := len(dst)
	comma := func() {
		if len(dst) > start {
			dst = append(dst, ',')
		}
	}
	for member := range strings.SplitSeq(header, ",") {
		member = strings.Trim(member, " \t")
		key, _, _ := strings.Cut(member, "=")
		switch strings.Trim(key, " \t") {
		case "", BaggageWorkflow, BaggageClass, BaggagePriority:
			continue
		}
		comma()
		dst = append(dst, member...)
	}
	if ValidWorkflow(t.Workflow) {
		comma()
		dst = append(append(dst, BaggageWorkflow+"="...), t.Workflow...)
	}
	if t.Class != work.Default && t.Class < work.NumClasses {
		comma()
		dst = append(append(dst, BaggageClass+"="...), t.Class.String()...)
	}
	if t.Priority != 0 {
		comma()
		dst = strconv.AppendUint(append(dst, BaggagePriority+"="...), uint64(min(t.Priority, work.MaxPriority)), 10)
	}
	return dst
}

// unescape undoes percent-encoding.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if len(s) < i+3 {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}
