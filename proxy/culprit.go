package proxy

import (
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/live"
)

// Culprit says how the gates look for requests that keep others waiting. The proxy sees
// no locks of the upstreams, but who holds the slots.
type Culprit struct {
	// Mode is culprit.Monitor by default: culprits are named in logs and metrics. Enforce
	// cancels them: the request to the upstream is broken off.
	Mode culprit.Mode
	// Audit is a file to which the looks of each incident are appended, from which its
	// decisions can be computed again. It is created with mode 0600. Default none.
	Audit string
	// Guard is the admin address of a guard that watches the server behind the proxy, such as
	// http://127.0.0.1:9091. What a guard in mode enforce cannot keep out, the proxy refuses: kinds
	// of requests of which one was cancelled, or cannot be. Default none. Can change while the proxy
	// runs; new gates then begin with what the old ones learned of the servers.
	Guard string
}

func (c Config) checkCulprit(wrong func(field, value, want string)) {
	if c.Culprit.Mode > culprit.Off {
		wrong("culprit.mode", strconv.Itoa(int(c.Culprit.Mode)), "off, monitor or enforce")
	}
	if g := c.Culprit.Guard; g != "" {
		if u, err := url.Parse(g); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" {
			wrong("culprit.guard", strconv.Quote(g), "the admin address of a guard, such as http://127.0.0.1:9091")
		}
	}
}

// auditLog appends to a file that is opened with the first line, and again after a
// failure. The gates of a proxy share it: a call of Write is whole lines.
type auditLog struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// audit returns the log of a configuration, nil if it has none.
func (c Culprit) audit() *auditLog {
	if c.Audit == "" {
		return nil
	}
	return &auditLog{path: c.Audit}
}

// Write implements io.Writer.
func (l *auditLog) Write(lines []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if l.file, err = audit.Append(l.path, audit.Mode); err != nil {
			l.file = nil
			return 0, err
		}
	}
	if n, err = l.file.Write(lines); err != nil {
		_ = l.file.Close()
		l.file = nil
	}
	return n, err
}

// close closes the file. A later line opens it again.
func (l *auditLog) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// culprits describes how the gate of an upstream looks for culprits.
func (c Culprit) culprits(name string, log *auditLog, notify func(live.CulpritNotice)) live.CulpritConfig {
	out := live.CulpritConfig{Mode: c.Mode, Source: name, Notify: notify}
	if log != nil {
		out.Audit = io.Writer(log)
	}
	return out
}
