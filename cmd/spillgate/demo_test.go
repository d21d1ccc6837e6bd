package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/demo"
)

// asProgram in the environment makes the test program the spillgate command,
// and every process that it starts from itself.
const asProgram = "SPILLGATE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main() // exits
	}
	os.Exit(m.Run())
}

// spillgate returns the command, marked so that its processes can be found.
func spillgate(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	mark := fmt.Sprintf("%s=%d", asProgram, time.Now().UnixNano())
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), mark)
	return cmd, mark
}

// checkNoProcess fails if a process with a mark is left.
func checkNoProcess(t *testing.T, mark string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // there is no /proc to look at
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		environments, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil || len(environments) == 0 {
			t.Fatalf("%d processes: %v", len(environments), err)
		}
		var left []string
		for _, path := range environments {
			if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(mark)) {
				left = append(left, path)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

// A demo as a stranger runs it, but for the length of its acts: its page is up while it goes on, it ends
// by itself, and the result says what happened.
func TestDemo(t *testing.T) {
	t.Parallel() // with TestKill: neither is about how fast the machine is
	out := t.TempDir()
	cmd, mark := spillgate(t, "demo", "--brief", "--json", "--seed", "11", "--out", out)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stderr).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "live page: ")
	if !ok {
		t.Fatalf("standard error begins with %q, want the page's address", line)
	}
	// The feed moves while the demo goes on.
	client := &http.Client{Timeout: time.Minute}
	first, last := -1, -1
	for last < 5 {
		resp, err := client.Get(url + "state.json")
		if err != nil {
			t.Fatal(err)
		}
		var s demo.State
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if first < 0 {
			first = s.Number
		}
		last = s.Number
		time.Sleep(50 * time.Millisecond)
	}
	client.CloseIdleConnections()
	rest, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, rest)
	}
	checkNoProcess(t, mark)

	var s demo.State
	if err := json.Unmarshal(stdout.Bytes(), &s); err != nil {
		t.Fatalf("%v in\n%s", err, stdout.String())
	}
	if s.Scene != demo.Done || s.Seed != 11 || !s.Complete() {
		t.Fatalf("scene %q, seed %d, complete %v; want a finished demo of seed 11", s.Scene, s.Seed, s.Complete())
	}
	plain, gated := s.Acts[0].Outcome.Totals, s.Acts[1].Outcome.Totals
	if plain.Offered == 0 || plain.Offered != gated.Offered {
		t.Errorf("offered %d and %d requests, want the same", plain.Offered, gated.Offered)
	}
	if plain.Refused != 0 || gated.Refused == 0 {
		t.Errorf("the plain act refused %d requests, the gated one %d; want none and some", plain.Refused, gated.Refused)
	}
	if !s.Tenants.Complete() {
		t.Errorf("the tenants' act is %+v, want it complete", s.Tenants)
	}
	if !s.Checkout.Complete() {
		t.Errorf("the checkouts' act is %+v, want it complete", s.Checkout)
	}
	if !s.Culprit.Complete() {
		t.Errorf("the culprit's act is %+v, want it complete", s.Culprit)
	}
	if !s.Feed.Complete() {
		t.Errorf("the broker's act is %+v, want it complete", s.Feed)
	}
	page, err := os.ReadFile(s.Report)
	if err != nil || !bytes.Contains(page, []byte("<svg")) || filepath.Dir(s.Report) != out {
		t.Errorf("the report %s: %v", s.Report, err)
	}
}

// An interrupt in the middle of the demo: exit code 130, and no process stays.
func TestDemoInterrupted(t *testing.T) {
	cmd, mark := spillgate(t, "demo", "--brief", "--plain", "--no-page", "--out", t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(stdout)
	for scan.Scan() {
		if strings.Contains(scan.Text(), "offered") { // services and load are running
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	_, _ = io.Copy(io.Discard, stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want exit code %d; it wrote %q", err, exitInterrupted, stderr.String())
	}
	if !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("standard error is %q", stderr.String())
	}
	checkNoProcess(t, mark)
}

// Every mistake is named before anything starts.
func TestDemoMistakes(t *testing.T) {
	for _, test := range []struct {
		args, want string
	}{
		{"demo --addr nowhere --out=", "2 mistakes"},
		{"demo --seed -1", "--seed"},
		{"demo now", `unexpected argument "now"`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), subcommands(), strings.Fields(test.args), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q in it", test.args, code, stderr.String(), exitUsage, test.want)
		}
	}
}

// A page that cannot be served is a failure with advice, before the demo starts.
func TestDemoAddressInUse(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), subcommands(), []string{"demo", "--plain", "--addr", "203.0.113.1:1"}, &stdout, &stderr)
	if code != exitFailure || !strings.Contains(stderr.String(), "--no-page") {
		t.Errorf("exit code %d, %q; want %d and advice", code, stderr.String(), exitFailure)
	}
}
