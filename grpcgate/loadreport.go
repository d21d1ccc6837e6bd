package grpcgate

import (
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// loadKey is the trailer of an ORCA report (gRFC A51).
	loadKey = "endpoint-load-metrics-bin"
	// loadAge is how old a report may be. Balancers average over seconds.
	loadAge = 100 * time.Millisecond

	// Fields of xds.data.orca.v3.OrcaLoadReport.
	orcaRPS         = 6
	orcaUtilization = 9
)

// loadReport is a gate's utilization as an ORCA report, renewed when it is used
// and has aged.
type loadReport struct {
	gate *live.Gate

	mu     sync.Mutex
	text   string
	at     mono.Time
	served uint64
}

// add puts the report into md, which may be nil.
func (l *loadReport) add(md metadata.MD) metadata.MD {
	if md == nil {
		md = make(metadata.MD, 1)
	}
	md[loadKey] = []string{l.report(live.Now())}
	return md
}

func (l *loadReport) report(now mono.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := now.Sub(l.at)
	if l.at != 0 && age < loadAge {
		return l.text
	}
	st := l.gate.Stats()
	var served uint64
	for _, n := range st.Served {
		served += n
	}
	var rps float64
	if l.at != 0 {
		rps = float64(served-l.served) / age.Seconds()
	}
	l.at, l.served = now, served
	l.text = string(encodeLoad(rps, float64(st.Running+st.Waiting)/float64(max(st.Limit, 1))))
	return l.text
}

// encodeLoad returns an OrcaLoadReport. Utilization is running and waiting
// requests over the limit, and above 1 when requests wait.
func encodeLoad(rps, utilization float64) []byte {
	var b []byte
	b = protowire.AppendTag(b, orcaRPS, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(rps))
	b = protowire.AppendTag(b, orcaUtilization, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(utilization))
}
