package livedoor

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// key is the metadata key in both directions.
const key = "livedoor-bin"

// errMalformed is the error of a value that was not made by this package.
var errMalformed = errors.New("livedoor: malformed metadata")

// tags is what a request carries.
type tags struct {
	priority work.Priority
	demand   int
}

// A request: priority, demand, as unsigned varints.
func (t tags) encode() string {
	b := binary.AppendUvarint(nil, uint64(t.priority))
	return string(binary.AppendUvarint(b, uint64(max(t.demand, 0))))
}

func decodeTags(s string) (tags, error) {
	v, err := uvarints(s, 2)
	if err != nil {
		return tags{}, err
	}
	if v[0] > uint64(work.MaxPriority) {
		return tags{}, errMalformed
	}
	return tags{priority: work.Priority(v[0]), demand: int(min(v[1], credit.WindowLimit))}, nil
}

// A reply: reason, level, and with a grant epoch, sequence number, window and
// revival in nanoseconds.
func encodeFeedback(f baseline.Feedback) string {
	b := binary.AppendUvarint(nil, uint64(f.Reason))
	b = binary.AppendUvarint(b, uint64(max(f.Level, 0)))
	if f.HasGrant {
		b = binary.AppendUvarint(b, uint64(f.Grant.Epoch))
		b = binary.AppendUvarint(b, uint64(f.Grant.Seq))
		b = binary.AppendUvarint(b, uint64(f.Grant.Window))
		b = binary.AppendUvarint(b, uint64(max(f.Grant.Revive, 0)))
	}
	return string(b)
}

func decodeFeedback(s string) (baseline.Feedback, error) {
	v, err := uvarints(s, 2)
	hasGrant := err != nil
	if hasGrant {
		if v, err = uvarints(s, 6); err != nil {
			return baseline.Feedback{}, err
		}
	}
	if v[0] >= uint64(work.NumReasons) || v[1] > uint64(work.MaxPriority) {
		return baseline.Feedback{}, errMalformed
	}
	f := baseline.Feedback{Reason: work.Reason(v[0]), Level: int(v[1]), HasGrant: hasGrant}
	if hasGrant {
		if v[2]|v[3]|v[4] > 1<<32-1 || v[5] > uint64(time.Hour) {
			return baseline.Feedback{}, errMalformed
		}
		f.Grant = wire.Grant{Epoch: uint32(v[2]), Seq: uint32(v[3]), Window: uint32(v[4]), Revive: time.Duration(v[5])}
	}
	return f, nil
}

// uvarints reads exactly n numbers, n at most 6.
func uvarints(s string, n int) (v [6]uint64, err error) {
	b := []byte(s)
	for i := range n {
		x, size := binary.Uvarint(b)
		if size <= 0 {
			return v, errMalformed
		}
		v[i], b = x, b[size:]
	}
	if len(b) > 0 {
		return v, errMalformed
	}
	return v, nil
}
