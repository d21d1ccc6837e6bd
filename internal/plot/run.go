package plot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Run is what it takes to repeat the work that a report shows.
type Run struct {
	Command string // as typed
	Seed    uint64
	Commit  string // of the source; "unknown" outside version control
	Machine string // processor, count, system, Go version
	Started time.Time
}

// ThisRun describes the running process.
func ThisRun(seed uint64) Run {
	args := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	for i, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`;&|<>*?()") {
			args[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return Run{
		Command: strings.Join(args, " "),
		Seed:    seed,
		Commit:  commit(),
		Machine: fmt.Sprintf("%s, %d of %d processors used, %s/%s, %s", processor(), runtime.GOMAXPROCS(0), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		Started: time.Now(),
	}
}

// commit returns the commit stamped into the program, or else the one of the
// working directory, which is right for "go run" inside the source tree.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		revision, changed := "", ""
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				revision = setting.Value
			case "vcs.modified":
				if setting.Value == "true" {
					changed = " with changes"
				}
			}
		}
		if revision != "" {
			return revision[:min(12, len(revision))] + changed
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty= with changes", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// processor returns the processor's name where the system tells.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unnamed processor"
}
