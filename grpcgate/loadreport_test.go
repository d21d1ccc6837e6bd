package grpcgate

import (
	"math"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestLoadReports(t *testing.T) {
	gate := newGate(t, fixed(4))
	s := serve(t, gate, &echo{}, []Option{WithLoadReports()})
	conn := dial(t, s.addr)
	release := occupy(t, gate, 2)
	defer release()
	var trailer metadata.MD
	if _, err := call1(within(t), conn, "x", grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if len(trailer[loadKey]) != 1 {
		t.Fatalf("trailer %v", trailer)
	}
	got := map[protowire.Number]float64{}
	for b := []byte(trailer[loadKey][0]); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.Fixed64Type {
			t.Fatalf("%x", trailer[loadKey][0])
		}
		v, m := protowire.ConsumeFixed64(b[n:])
		got[num] = math.Float64frombits(v)
		b = b[n+m:]
	}
	if got[orcaUtilization] != 0.5 || got[orcaRPS] != 0 {
		t.Errorf("%v, expected utilization 0.5 with 2 of 4 slots taken", got)
	}
	l := &loadReport{gate: gate}
	first := l.report(1)
	release()
	if l.report(1+1) != first {
		t.Error("renewed at once")
	}
	if l.report(1+2*1e9) == first {
		t.Error("not renewed after two seconds")
	}
}
