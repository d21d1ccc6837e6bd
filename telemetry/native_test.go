package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

// A Prometheus that scrapes native histograms gets them beside the classic buckets, which are as before.
func TestNativeHistograms(t *testing.T) {
	provider, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Shutdown(t.Context())
	gate, err := provider.NewGate("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		gate.Observe(live.Event{Outcome: work.Done, Queued: time.Millisecond, Service: time.Duration(i+1) * time.Millisecond})
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	provider.Handler().ServeHTTP(w, r)
	found := map[string]*dto.Histogram{}
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		var family dto.MetricFamily
		if decoder.Decode(&family) != nil {
			break
		}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			found[family.GetName()] = family.GetMetric()[0].GetHistogram()
		}
	}
	for _, name := range []string{"spillgate_queue_delay_seconds", "spillgate_service_seconds"} {
		h := found[name]
		if h == nil || h.GetSampleCount() != 1000 || len(h.GetBucket()) != 19 {
			t.Errorf("%s: %v, expected 1,000 samples in 19 classic buckets", name, h)
			continue
		}
		if h.GetSchema() != 3 || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s: schema %d with %d spans, expected native buckets that grow by at most a tenth", name, h.GetSchema(), len(h.GetPositiveSpan()))
		}
	}
	// 1 ms to 1 s is ten octaves of eight buckets.
	if n := len(found["spillgate_service_seconds"].GetPositiveDelta()); n < 60 || n > 82 {
		t.Errorf("%d native buckets for values from 1 ms to 1 s, expected about 80", n)
	}
}
