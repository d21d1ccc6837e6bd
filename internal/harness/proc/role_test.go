package proc

import (
	"strings"
	"testing"
)

func TestReadAnswer(t *testing.T) {
	for _, tt := range []struct{ output, says string }{
		{"listening on x\nanswer 7\nanswer 8\n", ""},
		{"answer 7", ""},
		{"answer seven\n", "the answer"},
		{"the answer 7\n", "no answer"},
		{"", "no answer"},
	} {
		var n int
		err := ReadAnswer(tt.output, &n)
		if tt.says == "" && (err != nil || n != 7) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%q: %d, %v, want 7 or %q", tt.output, n, err, tt.says)
		}
	}
}
