package mono

import (
	"math"
	"testing"
	"time"
)

func TestAddSaturates(t *testing.T) {
	tests := []struct {
		at   Time
		d    time.Duration
		want Time
	}{
		{0, time.Second, Time(time.Second)},
		{Time(time.Second), -time.Second, 0},
		{Never, time.Second, Never},
		{Never, -time.Second, Never},
		{Never - 1, time.Second, Never},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64 + 5, -time.Second, math.MinInt64},
	}
	for _, tt := range tests {
		if got := tt.at.Add(tt.d); got != tt.want {
			t.Errorf("%d.Add(%d) = %d, want %d", tt.at, tt.d, got, tt.want)
		}
	}
}

func TestSubSaturates(t *testing.T) {
	tests := []struct {
		t, u Time
		want time.Duration
	}{
		{Time(3 * time.Second), Time(time.Second), 2 * time.Second},
		{0, Time(time.Second), -time.Second},
		{Never, 0, math.MaxInt64},
		{Never, Never, math.MaxInt64},
		{math.MaxInt64 - 1, math.MinInt64, math.MaxInt64},
		{math.MinInt64, 1, math.MinInt64},
	}
	for _, tt := range tests {
		if got := tt.t.Sub(tt.u); got != tt.want {
			t.Errorf("%d.Sub(%d) = %d, want %d", tt.t, tt.u, got, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	if got := Time(1500 * time.Microsecond).String(); got != "1.5ms" {
		t.Errorf("String = %q", got)
	}
	if got := Never.String(); got != "never" {
		t.Errorf("Never.String = %q", got)
	}
}

// Seconds says the same as the library, to the last bit.
func TestSeconds(t *testing.T) {
	for _, d := range []time.Duration{0, 1, -1, 7, 1e9 - 1, 1e9, 1e9 + 1, -1e9, 123456789, 987654321, 12345678987654321, math.MaxInt64, math.MinInt64} {
		if got, want := Seconds(d), d.Seconds(); got != want {
			t.Errorf("Seconds(%d) = %v, want %v", d, got, want)
		}
	}
}
