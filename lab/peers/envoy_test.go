package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
)

// TestConfigureEnvoy checks what of the configuration depends on the contender.
func TestConfigureEnvoy(t *testing.T) {
	at := &bed.Role{Service: &world.Service{Objective: 100 * time.Millisecond}, Listen: "127.0.0.1:81", Upstream: "127.0.0.1:4711"}
	for filter, others := range map[string]string{"none": "gradient_controller|sr_threshold", "adaptive_concurrency": "sr_threshold", "admission_control": "gradient_controller"} {
		text, err := configureEnvoy(filter, at)
		if err != nil {
			t.Fatal(err)
		}
		config := string(text)
		for _, part := range []string{"address: {socket_address: {address: 127.0.0.1, port_value: 81}}", "{socket_address: {address: 127.0.0.1, port_value: 4711}}", "timeout: 0.09s"} {
			if !strings.Contains(config, part) {
				t.Errorf("%s: the configuration has no %q", filter, part)
			}
		}
		if filter != "none" && !strings.Contains(config, "name: envoy.filters.http."+filter+"\n") {
			t.Errorf("%s: the filter is not configured", filter)
		}
		for part := range strings.SplitSeq(others, "|") {
			if strings.Contains(config, part) {
				t.Errorf("%s: the configuration has %q", filter, part)
			}
		}
	}
	if _, err := configureEnvoy("none", &bed.Role{Service: at.Service, Listen: "nowhere", Upstream: at.Upstream}); err == nil {
		t.Error("an address without a port was taken")
	}
}
