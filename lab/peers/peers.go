package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/priority"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"
	"github.com/zeromicro/go-zero/core/load"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/lab/bed"
)

// peers returns the third-party controllers, each installed as its documentation
// says, with its defaults unless noted.
func peers() []bed.Peer {
	return []bed.Peer{
		{Name: "failsafe", Options: failsafeDefault},
		{Name: "failsafe-tap", Options: failsafeTap},
		{Name: "failsafe-queue", Options: failsafeQueue},
		{Name: "failsafe-priority", Options: failsafePriority},
		{Name: "go-zero", Options: goZero},
		{Name: "aegis", Options: aegis},
	}
}

// failsafeDefault is failsafe-go's adaptive limiter as a unary interceptor. Its
// errors become RESOURCE_EXHAUSTED, so that clients can tell.
func failsafeDefault() []grpc.ServerOption {
	limiter := adaptivelimiter.NewWithDefaults[any]()
	return intercept(failsafegrpc.NewUnaryServerInterceptor[any](limiter))
}

// failsafeTap is what its documentation prefers: a check in the connection reader
// before the interceptor, which cannot itself take a permit there.
func failsafeTap() []grpc.ServerOption {
	limiter := adaptivelimiter.NewWithDefaults[any]()
	return append(intercept(failsafegrpc.NewUnaryServerInterceptor[any](limiter)),
		grpc.InTapHandle(failsafegrpc.NewServerInHandle[any](limiter)))
}

// failsafeQueue lets executions queue: rejections begin at twice the limit and
// are certain at three times, the factors of its documentation.
func failsafeQueue() []grpc.ServerOption {
	limiter := adaptivelimiter.NewBuilder[any]().WithQueueing(2, 3).Build()
	return intercept(failsafegrpc.NewUnaryServerInterceptor[any](limiter))
}

// failsafePriority sheds by priority, one of five, calibrated every half second.
func failsafePriority() []grpc.ServerOption {
	prioritizer := adaptivelimiter.NewPrioritizer()
	prioritizer.ScheduleCalibrations(context.Background(), 500*time.Millisecond) // to the end of the process
	limiter := adaptivelimiter.NewBuilder[any]().WithQueueing(2, 3).BuildPrioritized(prioritizer)
	return intercept(spread(), failsafegrpc.NewUnaryServerInterceptor[any](limiter))
}

// spread gives calls the five priorities in turn.
func spread() grpc.UnaryServerInterceptor {
	var mu sync.Mutex
	next := 0
	all := []priority.Priority{priority.VeryLow, priority.Low, priority.Medium, priority.High, priority.VeryHigh}
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		mu.Lock()
		p := all[next]
		next = (next + 1) % len(all)
		mu.Unlock()
		return handle(priority.ContextWithLevel(ctx, p.RandomLevel()), req)
	}
}

// intercept chains interceptors behind one that gives the limiter's own errors a
// status.
func intercept(chain ...grpc.UnaryServerInterceptor) []grpc.ServerOption {
	named := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		resp, err := handle(ctx, req)
		if errors.Is(err, adaptivelimiter.ErrExceeded) || errors.Is(err, failsafe.ErrExecutionCanceled) {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		return resp, err
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{named}, chain...)...)}
}

// goZero is go-zero's adaptive shedder as its own gRPC interceptor uses it, which
// is internal to it, with its default threshold of 900 ‰ of the processor.
func goZero() []grpc.ServerOption {
	load.DisableLog()
	shedder := load.NewAdaptiveShedder(load.WithCpuThreshold(900))
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
			promise, err := shedder.Allow()
			if err != nil {
				return nil, status.Error(codes.ResourceExhausted, err.Error())
			}
			defer func() {
				if errors.Is(err, context.DeadlineExceeded) {
					promise.Fail()
				} else {
					promise.Pass()
				}
			}()
			return handle(ctx, req)
		})}
}

// aegis is go-kratos' BBR limiter as kratos' own middleware uses it.
func aegis() []grpc.ServerOption {
	limiter := bbr.NewLimiter()
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			done, err := limiter.Allow()
			if err != nil {
				return nil, status.Error(codes.ResourceExhausted, err.Error())
			}
			resp, err := handle(ctx, req)
			done(ratelimit.DoneInfo{Err: err})
			return resp, err
		})}
}
