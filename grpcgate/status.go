package grpcgate

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// errorDomain is the domain of ErrorInfo in every status of this package.
	errorDomain = "spillgate"
	// refusalField is the metadata of ErrorInfo that names a refusal: see live.Gate.Explain.
	refusalField = "refusal"
	// pushbackKey is the trailer by which a server steers grpc's own retries.
	pushbackKey = "grpc-retry-pushback-ms"
)

// refused is a refusal as an error with a gRPC status. errors.As finds the
// *spillgate.Refusal in it.
type refused struct {
	status *status.Status
	cause  *live.Refusal
}

func (e *refused) Error() string              { return e.status.Err().Error() }
func (e *refused) GRPCStatus() *status.Status { return e.status }
func (e *refused) Unwrap() error              { return e.cause }

// refusalError turns an error of a gate or a wallet into one with a status.
func refusalError(err error) error {
	var r *live.Refusal
	if !errors.As(err, &r) {
		return status.FromContextError(err).Err()
	}
	st := status.New(codeOf(r), r.Error())
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(r.Reason.String()), Domain: errorDomain}
	var with *status.Status
	pushback := r.Pushback
	if r.ID != 0 {
		info.Metadata = map[string]string{refusalField: r.ID.String()}
	}
	if r.Resend.Token != (wire.Token{}) {
		info.Metadata = map[string]string{resendField: r.Resend.Header()}
		pushback = r.Resend.After
	}
	if pushback >= 0 {
		with, err = st.WithDetails(info, &errdetails.RetryInfo{RetryDelay: durationpb.New(pushback)})
	} else {
		with, err = st.WithDetails(info)
	}
	if err == nil { // else the status goes without details
		st = with
	}
	return &refused{st, r}
}

// codeOf returns the status code of a refusal: RESOURCE_EXHAUSTED if the
// client's own means or its workflow's are spent, UNAVAILABLE if the server is short,
// DEADLINE_EXCEEDED if nothing can help, CANCELED if the caller left, ABORTED if the gate
// cancelled what ran.
func codeOf(r *live.Refusal) codes.Code {
	switch {
	case r.Resend.Token != (wire.Token{}):
		return codes.Aborted
	case errors.Is(r, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(r, context.Canceled):
		return codes.Canceled
	}
	switch r.Reason {
	case work.WalletFull, work.WalletExpired, work.RetryBudget, work.Share, work.Rate:
		return codes.ResourceExhausted
	case work.Expired, work.Infeasible:
		return codes.DeadlineExceeded
	case work.Canceled:
		return codes.Canceled
	}
	return codes.Unavailable
}

// pushbackText is the value of the trailer pushbackKey: whole milliseconds,
// rounded up, or -1 for never.
func pushbackText(d time.Duration) string {
	if d < 0 {
		return "-1"
	}
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// fromSpillgate reports whether err is the refusal of a gate or a wallet, here
// or further down.
func fromSpillgate(err error) bool {
	_, info, _ := refusalIn(err)
	return info != nil
}

// refusalIn returns the status of an error and what a gate or a wallet said in it, nil if
// none did.
func refusalIn(err error) (*status.Status, *errdetails.ErrorInfo, *errdetails.RetryInfo) {
	st, ok := status.FromError(err)
	if !ok {
		return nil, nil, nil
	}
	switch st.Code() {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Aborted:
	default:
		return nil, nil, nil // spares the decoding of details
	}
	info, retry := saidIn(st)
	return st, info, retry
}

// saidIn returns what a gate or a wallet said in a status, nil if none did, and the delay
// beside it.
func saidIn(st *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain == errorDomain {
				info = d
			}
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	return info, retry
}

// understood returns the error of a call so that errors.As finds the *spillgate.Refusal in it
// that the server, or one further down, said in its status, as it does in the refusal of this client's own
// wallet. Any other error is returned as it is. A server has no wallet: where its status says that one refused, it is that of a
// client of the handler, which has run.
func understood(err error) error {
	st, info, retry := refusalIn(err)
	var own *live.Refusal
	if info == nil || errors.As(err, &own) {
		return err
	}
	r := &live.Refusal{Reason: work.Downstream, Pushback: -1}
	for i := range work.NumReasons {
		if reason := work.Reason(i); reason.Sent() && strings.EqualFold(reason.String(), info.Reason) {
			r.Reason = reason
		}
	}
	r.ID, _ = live.ParseRefusalID(info.Metadata[refusalField])
	if retry != nil {
		r.Pushback = retry.GetRetryDelay().AsDuration()
	}
	if token, ok := wire.ResendOf(info.Metadata[resendField]); ok {
		r.Resend, r.Pushback = wire.Resend{Token: token, After: max(r.Pushback, 0)}, -1
	}
	return &refused{st, r}
}

// passedOn returns what a handler returned, with a status if it is a refusal that has none: that of a service which the
// handler called by HTTP (httpgate), or of another gate in the process. Without one the caller would get UNKNOWN. Whose
// quota was spent down there is nothing to the caller: it learns that the server is short, and when to come again. An error
// of a context is a status to grpc already.
func passedOn(err error) error {
	var below *live.Refusal
	if err == nil || !errors.As(err, &below) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return refusalError(&live.Refusal{Reason: work.Downstream, Pushback: below.Pushback})
}

// outcomeOf says how a handler ended that returned err. An application's own
// error is work done like any other. An answer that nobody waits for any more, as its
// caller left or its deadline passed, is late.
func outcomeOf(ctx context.Context, in *incoming, err error) work.Outcome {
	switch {
	case err == nil && ctx.Err() != nil:
		return work.Late
	case err == nil:
		return work.Done
	case in.downstream.Load() || fromSpillgate(err):
		return work.Dropped
	case ctx.Err() != nil:
		return work.Ignored
	}
	return work.Done
}
