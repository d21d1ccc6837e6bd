package keyrange

import "google.golang.org/protobuf/encoding/protowire"

// The methods whose requests have ranges.
const (
	MethodRange       = "/etcdserverpb.KV/Range"
	MethodTxn         = "/etcdserverpb.KV/Txn"
	MethodDeleteRange = "/etcdserverpb.KV/DeleteRange"
)

// Told reports whether the requests of a method, "/pkg.Service/Method", have ranges.
func Told(method string) bool {
	return method == MethodRange || method == MethodTxn || method == MethodDeleteRange
}

// deepest is how deeply transactions in transactions are looked into. etcd allows any
// depth; its clients make none.
const deepest = 8

// Each calls do for every range of more than one key in message, a request of a method
// or its beginning, until do returns false, and returns false then. A transaction has
// those of its conditions and of both of its branches.
func Each(method string, message []byte, do func(Range) bool) bool {
	switch method {
	case MethodRange, MethodDeleteRange:
		return one(message, 1, 2, do)
	case MethodTxn:
		return txn(message, deepest, do)
	}
	return true
}

// txn walks a TxnRequest: compare = 1, success = 2, failure = 3.
func txn(message []byte, depth int, do func(Range) bool) bool {
	return fields(message, func(n protowire.Number, part []byte) bool {
		switch n {
		case 1:
			return one(part, 3, 64, do) // Compare: key = 3, range_end = 64
		case 2, 3:
			return fields(part, func(n protowire.Number, op []byte) bool { return request(n, op, depth, do) })
		}
		return true
	})
}

// request is field n of a RequestOp: request_range = 1, request_put = 2,
// request_delete_range = 3, request_txn = 4.
func request(n protowire.Number, op []byte, depth int, do func(Range) bool) bool {
	switch {
	case n == 1, n == 3:
		return one(op, 1, 2, do)
	case n == 4 && depth > 0:
		return txn(op, depth-1, do)
	}
	return true
}

// Writes reports whether a whole TxnRequest puts or deletes in one of its branches, or has a transaction in it that is
// too deep to be looked into. etcd proposes it then, and applies it whether or not its caller waits.
func Writes(txn []byte) bool { return writes(txn, deepest) }

func writes(txn []byte, depth int) (found bool) {
	fields(txn, func(n protowire.Number, part []byte) bool {
		if n == 2 || n == 3 {
			fields(part, func(n protowire.Number, op []byte) bool {
				found = found || n == 2 || n == 3 || n == 4 && (depth == 0 || writes(op, depth-1))
				return !found
			})
		}
		return !found
	})
	return found
}

// one reads the range of a message with its key and end in fields of these numbers.
func one(message []byte, key, end protowire.Number, do func(Range) bool) bool {
	var r Range
	fields(message, func(n protowire.Number, part []byte) bool {
		switch n { // of a field that comes twice the last counts
		case key:
			r.Key = part
		case end:
			r.End = part
		}
		return true
	})
	return r.Single() || do(r)
}

// fields calls do for every field of bytes in message until do returns false, and
// returns false then. Other fields are passed over. A field that is cut off is told as
// far as it goes, for a message in it may begin with whole ones.
func fields(message []byte, do func(n protowire.Number, part []byte) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return true
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return true
			}
			message = message[n:]
			continue
		}
		length, n := protowire.ConsumeVarint(message)
		if n < 0 {
			return true
		}
		message = message[n:]
		part := message[:min(length, uint64(len(message)))]
		if !do(number, part) {
			return false
		}
		message = message[len(part):]
	}
	return true
}
