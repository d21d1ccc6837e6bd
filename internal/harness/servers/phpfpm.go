package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// PHPFPMConfig says how a PHP-FPM is started, with one pool.
type PHPFPMConfig struct {
	// Workers is how many requests are served at once. Default 4.
	Workers int
	// Files are the scripts, by name.
	Files map[string]string
	// Unix listens on the path Socket and not on a port.
	Unix bool
	// Settings are more lines of the pool's configuration.
	Settings string
}

// Socket returns the path on which a PHP-FPM listens that does not on a port.
func (s *Server) Socket() string { return filepath.Join(s.Dir, "socket") }

// Documents returns where the Files of an Apache or a PHP-FPM are.
func (s *Server) Documents() string { return filepath.Join(s.Dir, "www") }

// PHPFPM starts a PHP-FPM that may be thrown away. The status of its pool is /status, at Port as
// well as at ExtraPort, where it answers while all workers are busy.
func PHPFPM(ctx context.Context, c PHPFPMConfig) (*Server, error) {
	program, err := first(exec.LookPath, "php-fpm", "php-fpm8.2", "php-fpm8.3", "php-fpm8.4", "/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm8.3", "/usr/sbin/php-fpm8.4", "/usr/sbin/php-fpm")
	if err != nil {
		return nil, fmt.Errorf("servers: PHP-FPM: %w (Debian: php-fpm)", ErrMissing)
	}
	return start(ctx, spec{
		name: "PHP-FPM", ask: syscall.SIGTERM, extra: true,
		prepare: func(_ func(string, ...string) error, dir string) error { return website(dir, c.Files) },
		command: func(dir string, port, extra int) []string {
			file := filepath.Join(dir, "fpm.conf")
			// What cannot be written is told by FPM, which finds no file.
			_ = os.WriteFile(file, []byte(c.text(dir, port, extra)), 0o644)
			return []string{program, "-n", "-F", "-p", dir, "-y", file}
		},
		ready: func(ctx context.Context, port int) error {
			if c.Unix { // it is there when its master listens
				return nil
			}
			return accepts(ctx, port)
		},
	})
}

func (c *PHPFPMConfig) text(dir string, port, extra int) string {
	if c.Workers == 0 {
		c.Workers = 4
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	if c.Unix {
		listen = filepath.Join(dir, "socket")
	}
	who := ""
	if os.Getuid() == 0 {
		who = fmt.Sprintf("user = %[1]s\ngroup = %[1]s\nlisten.owner = %[1]s\n", webUser)
	}
	return fmt.Sprintf("[global]\nerror_log = %[1]s/errors\ndaemonize = no\n[www]\n%[2]slisten = %[3]s\npm = static\npm.max_children = %[4]d\n"+
		"pm.status_path = /status\npm.status_listen = 127.0.0.1:%[5]d\ncatch_workers_output = no\n%[6]s\n", dir, who, listen, c.Workers, extra, c.Settings)
}
