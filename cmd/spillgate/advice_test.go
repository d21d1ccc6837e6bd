package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
)

// Addresses that are taken are all named at once, with what to do.
func TestAddressesThatAreTaken(t *testing.T) {
	var taken []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken = append(taken, l.Addr().String())
	}
	for _, args := range [][]string{
		{"proxy", "--listen", taken[0], "--admin", taken[1], "--upstream", "http://127.0.0.1:9", "--slo", "1s"},
		{"broker", "--listen", taken[0], "--admin", taken[1]},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), subcommands(), args, &out, &errs)
		for _, address := range taken {
			said := false
			for line := range strings.Lines(errs.String()) {
				said = said || strings.HasPrefix(line, "spillgate "+args[0]+": ") && strings.Contains(line, address) && strings.Contains(line, "another program has this address")
			}
			if code != exitFailure || !said {
				t.Errorf("%v: exit code %d, and nothing helpful about %s in\n%s", args, code, address, errs.String())
			}
		}
	}
}

// An error with a text of its own around several stays whole.
func TestFlatten(t *testing.T) {
	a, b := net.ErrClosed, net.ErrWriteToConnected
	if all := flatten(usage(a, b)); len(all) != 2 {
		t.Errorf("%d errors, want 2: %v", len(all), all)
	}
	if all := flatten(fmt.Errorf("%w, and then %w", a, b)); len(all) != 1 {
		t.Errorf("%d errors, want 1: %v", len(all), all)
	}
}
