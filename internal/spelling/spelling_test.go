package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	keys := []string{"listen", "limits", "log", "slo", "slots", "upstreams", "workflows"}
	for word, want := range map[string]string{
		"lisen": "listen", "Listen": "listen", "lsiten": "listen", "upstream": "upstreams", "slot": "slots", "sol": "slo", "work": "workflows",
		"l": "", "": "", "nothing": "", "timeouts": "", strings.Repeat("x", 1000): "",
	} {
		if got := Closest(word, keys); got != want {
			t.Errorf("Closest(%.20q) = %q, expected %q", word, got, want)
		}
	}
	if got := DidYouMean("lisen", keys); got != "; did you mean listen?" {
		t.Errorf("DidYouMean = %q", got)
	}
	if got := DidYouMean("nothing", keys); got != "" {
		t.Errorf("DidYouMean = %q", got)
	}
}

// No order of the names changes the answer, and no bytes panic.
func FuzzClosest(f *testing.F) {
	f.Add("lisen", "listen limits log")
	f.Add("aa", "ab ba")
	f.Fuzz(func(t *testing.T, word, text string) {
		names := strings.Fields(text)
		got := Closest(word, names)
		if got != "" && !slices.Contains(names, got) {
			t.Errorf("Closest(%q, %q) = %q", word, names, got)
		}
		slices.Reverse(names)
		if again := Closest(word, names); again != got {
			t.Errorf("Closest(%q, %q) = %q, and the other way round %q", word, names, again, got)
		}
	})
}
