package mesh_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
)

func TestReadTrace(t *testing.T) {
	const csv = "TIMESTAMP,ContextTokens\r\n2023-11-16 18:17:03.9799600,4808\r\n2023-11-16 18:17:05.9799600,1\r\n\r\n2023-11-16 18:17:04.9799600,2\r\n"
	got, err := mesh.ReadTrace(strings.NewReader(csv), 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{0, 100 * ms, 200 * ms}
	if len(got) != len(want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("instant %d is %v, expected %v", i, got[i], want[i])
		}
	}
	for _, bad := range []string{"a\nb\n", "2023-11-16 18:17:03\n2023-13-16 18:17:03\n"} {
		if _, err := mesh.ReadTrace(strings.NewReader(bad), 1); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := mesh.ReadTrace(strings.NewReader(""), 0); err == nil {
		t.Error("a speed of 0 was accepted")
	}
}

// FuzzReadTrace: whatever the file holds, instants ascend from 0.
func FuzzReadTrace(f *testing.F) {
	f.Add("T\n2023-11-16 18:17:03.9799600,4808\n", 2.0)
	f.Fuzz(func(t *testing.T, csv string, speed float64) {
		at, err := mesh.ReadTrace(strings.NewReader(csv), speed)
		if err != nil {
			return
		}
		for i := range at {
			if at[i] < 0 || i > 0 && at[i] < at[i-1] {
				t.Fatalf("instant %d is %v", i, at[i])
			}
		}
	})
}
