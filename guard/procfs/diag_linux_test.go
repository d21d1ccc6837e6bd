package procfs

import "testing"

func FuzzParseDiag(f *testing.F) {
	f.Add(diagQuestion(2), 80)
	f.Add(make([]byte, headerBytes+diagMessage), 0)
	f.Fuzz(func(t *testing.T, text []byte, port int) {
		all, _, _ := parseDiag(nil, text, []int{port})
		for _, p := range all {
			if p.Port != port || p.Waited < 0 {
				t.Fatalf("%+v of port %d", p, port)
			}
		}
	})
}
