package httpgate

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// refuseGRPC answers a gRPC request with a status and nothing else: the form
// called trailers-only, in which the header is the trailer.
func refuseGRPC(w http.ResponseWriter, r *live.Refusal) {
	code, wait := grpcCode(Status(r.Reason)), r.Pushback
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(r.Reason.String()), Domain: "spillgate"}
	if r.ID != 0 {
		info.Metadata = map[string]string{"refusal": r.ID.String()}
	}
	if r.Resend.Token != (wire.Token{}) {
		code, wait = codes.Aborted, r.Resend.After
		info.Metadata = map[string]string{"resend": r.Resend.Header()}
	}
	st := status.New(code, r.Error())
	pushback := int64(-1)
	var with *status.Status
	var err error
	if r.Pushback >= 0 {
		pushback = int64((r.Pushback + time.Millisecond - 1) / time.Millisecond)
	}
	if wait >= 0 {
		with, err = st.WithDetails(info, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	} else {
		with, err = st.WithDetails(info)
	}
	if err == nil {
		st = with
	}
	w.Header()["Grpc-Retry-Pushback-Ms"] = []string{strconv.FormatInt(pushback, 10)}
	WriteGRPCStatus(w, st)
}

// WriteGRPCStatus answers a gRPC request with st alone: the form called
// trailers-only. Nothing may have been written before, and nothing after.
func WriteGRPCStatus(w http.ResponseWriter, st *status.Status) {
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{strconv.Itoa(int(st.Code()))}
	h["Grpc-Message"] = []string{escape(st.Message())}
	if len(st.Proto().GetDetails()) > 0 {
		if details, err := proto.Marshal(st.Proto()); err == nil {
			h["Grpc-Status-Details-Bin"] = []string{base64.RawStdEncoding.EncodeToString(details)}
		}
	}
	w.WriteHeader(http.StatusOK)
}

// grpcCode is the gRPC code for the status of a refusal.
func grpcCode(status int) codes.Code {
	switch status {
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case statusClientClosed:
		return codes.Canceled
	}
	return codes.Unavailable
}

// escape writes a message as grpc-message has it: percent-encoded, but for
// printable ASCII.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
