package servers

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// EtcdConfig says how etcd is started. The zero EtcdConfig is a server that may be thrown
// away.
type EtcdConfig struct {
	// Settings are further flags, without the dashes; they replace those that the package
	// would set.
	Settings map[string]string
}

// Etcd starts a cluster of one etcd. It has no users.
func Etcd(ctx context.Context, c EtcdConfig) (*Server, error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("servers: etcd: %w (Debian: etcd-server)", ErrMissing)
	}
	return start(ctx, spec{
		name: "etcd", user: "nobody", ask: syscall.SIGTERM, extra: true,
		prepare: func(func(string, ...string) error, string) error { return nil },
		command: func(dir string, port, extra int) []string {
			client, peer := "http://127.0.0.1:"+strconv.Itoa(port), "http://127.0.0.1:"+strconv.Itoa(extra)
			params := map[string]string{"data-dir": filepath.Join(dir, "data"), "log-level": "error", "name": "one",
				"listen-client-urls": client, "advertise-client-urls": client, "max-txn-ops": "10000", "max-request-bytes": "8388608",
				"listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": "one=" + peer}
			maps.Copy(params, c.Settings)
			return append([]string{program}, settings("", params, func(name, value string) []string { return []string{"--" + name + "=" + value} })...)
		},
		ready: accepts,
	})
}
