package main

import (
	"bytes"
	"strings"
	"testing"
)

// Mistakes on the command line of a guard name the flag, or the URL, that they are in, and each is said once.
func TestGuardMistakes(t *testing.T) {
	const one, two = "postgres://u@h/d", "mariadb://u@h"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--period", "1h", one, two}, "--period 1h0m0s: expected 10ms to 10s"},
		{[]string{"--allow", "kind=coffee", one, two}, `--allow kind="coffee": expected one of`},
		{[]string{"--deny", "fingerprint=xyz", one}, `--deny fingerprint="xyz": expected up to 16`},
		{[]string{one, one}, "URL 2: "},
		{[]string{one, "ftp://h"}, "URL 2: "},
		{[]string{""}, "URL 1: empty, expected postgres://"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), subcommands(), append([]string{"guard", "--slo", "1s"}, test.args...), &out, &out)
		if code != exitUsage || strings.Count(out.String(), test.want) != 1 || strings.Contains(out.String(), "servers[") {
			t.Errorf("guard %q: code %d, %s\nexpected once %q", test.args, code, &out, test.want)
		}
	}
}
