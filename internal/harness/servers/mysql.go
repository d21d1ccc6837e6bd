package servers

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	_ "github.com/go-sql-driver/mysql" // the driver that says whether a server answers
)

// MariaDBConfig says how MariaDB is started.
type MariaDBConfig struct {
	// Settings are of the section [mariadbd], without the leading dashes; an empty
	// value is a flag. They stand before those of the package: no flushing, no
	// binary log.
	Settings map[string]string
	// ExtraPort asks for a second listener with threads of its own, for
	// thread_handling=pool-of-threads.
	ExtraPort bool
}

// MySQLDSN is the data source name of the user root without a password, for a database
// of s on its port, or on its second one.
func (s *Server) MySQLDSN(database string, extra bool) string {
	return fmt.Sprintf("root@tcp(%s:%d)/%s?interpolateParams=true", s.Host, s.port(extra), database)
}

// MySQLURL is what names the same for a guard.
func (s *Server) MySQLURL(scheme string) string {
	return fmt.Sprintf("%s://root@%s:%d/", scheme, s.Host, s.Port)
}

func (s *Server) port(extra bool) int {
	if extra {
		return s.ExtraPort
	}
	return s.Port
}

// MariaDB starts MariaDB with the user root without a password.
func MariaDB(ctx context.Context, c MariaDBConfig) (*Server, error) {
	server, errServer := find("mariadbd", "/usr/sbin/mariadbd")
	install, errInstall := find("mariadb-install-db", "/usr/bin/mariadb-install-db")
	if errServer != nil || errInstall != nil {
		return nil, fmt.Errorf("servers: MariaDB: %w (Debian: mariadb-server)", ErrMissing)
	}
	params := map[string]string{"innodb-flush-log-at-trx-commit": "0", "bind-address": "127.0.0.1", "skip-name-resolve": "", "performance-schema": "ON",
		"innodb-flush-method": "nosync", "max-connections": "200"}
	maps.Copy(params, c.Settings)
	return start(ctx, spec{
		name: "MariaDB", user: "mysql", ask: syscall.SIGKILL, extra: c.ExtraPort,
		prepare: func(run func(string, ...string) error, dir string) error {
			return run(install, "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--auth-root-authentication-method=normal",
				"--skip-test-db", "--skip-name-resolve", "--innodb-flush-method=nosync", "--tmpdir="+dir)
		},
		command: func(dir string, port, extra int) []string {
			words := []string{server, "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--socket=" + filepath.Join(dir, "sock"),
				"--pid-file=" + filepath.Join(dir, "pid"), "--tmpdir=" + dir, "--port=" + strconv.Itoa(port)}
			if extra > 0 {
				words = append(words, "--extra-port="+strconv.Itoa(extra), "--extra-max-connections=10")
			}
			return append(words, settings("--", params, dashed)...)
		},
		ready: answersMySQL,
	})
}

func dashed(name, value string) []string {
	if value == "" {
		return []string{name}
	}
	return []string{name + "=" + value}
}

func answersMySQL(ctx context.Context, port int) error {
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/?timeout=1s", port))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// find returns where a program is: in PATH, or at Debian's place.
func find(name, place string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(place)
}
