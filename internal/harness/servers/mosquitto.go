package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// mosquittoSettings is its configuration, with a port to fill in.
const mosquittoSettings = `listener %d 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
log_type error
`

// Mosquitto starts a mosquitto that may be thrown away. It has no users, and no limit
// on what waits for a client.
func Mosquitto(ctx context.Context) (*Server, error) {
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
			return []string{program, "-c", file}
		},
		ready: accepts,
	})
}
