package mistake

import "testing"

func TestError(t *testing.T) {
	for _, tt := range []struct {
		m    Mistake
		want string
	}{
		{Mistake{"slo", "5", "1ms to 1h0m0s"}, "slo: 5, expected 1ms to 1h0m0s"},
		{Mistake{"listen", "", "at least one address"}, "listen: missing, expected at least one address"},
	} {
		if got := tt.m.Error(); got != tt.want {
			t.Errorf("%+v: %q, expected %q", tt.m, got, tt.want)
		}
	}
}
