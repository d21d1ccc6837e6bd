package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// MosquittoConfig says how mosquitto is started. The zero MosquittoConfig is a broker
// that may be thrown away, with no limit on what waits for a client.
type MosquittoConfig struct {
	// CPUs pins the broker to these processors with taskset. Default: not pinned.
	CPUs []int
}

const mosquittoSettings = `listener %d 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
log_type error
`

// Mosquitto starts a mosquitto. It has no users.
func Mosquitto(ctx context.Context, c MosquittoConfig) (*Server, error) {
	program, err := exec.LookPath("mosquitto")
	if err != nil {
		return nil, fmt.Errorf("servers: mosquitto: %w (Debian: mosquitto)", ErrMissing)
	}
	return start(ctx, spec{
		name: "mosquitto", user: "mosquitto", ask: syscall.SIGTERM,
		prepare: func(func(string, ...string) error, string) error { return nil },
		command: func(dir string, port, _ int) []string {
			file := filepath.Join(dir, "mosquitto.conf")
			// What cannot be written is told by mosquitto, which finds no file.
			_ = os.WriteFile(file, fmt.Appendf(nil, mosquittoSettings, port), 0o644)
			command := []string{program, "-c", file}
			if len(c.CPUs) > 0 {
				var cpus []string
				for _, n := range c.CPUs {
					cpus = append(cpus, strconv.Itoa(n))
				}
				command = append([]string{"taskset", "-c", strings.Join(cpus, ",")}, command...)
			}
			return command
		},
		ready: func(ctx context.Context, port int) error {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
}
