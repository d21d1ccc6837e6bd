package servers

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresConfig says how PostgreSQL is started.
type PostgresConfig struct {
	// Settings are of postgresql.conf. They stand before those of the package:
	// no flushing, 100 connections, three of them reserved.
	Settings map[string]string
	// Programs is the directory of postgres and initdb. Default: the newest of
	// Debian's, or where PATH finds initdb.
	Programs string
}

// PostgresURL is the connection URL of the superuser, without a password, for a
// database of s.
func (s *Server) PostgresURL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s:%d/%s?sslmode=disable", s.Host, s.Port, database)
}

// Postgres starts PostgreSQL with the superuser postgres, whom everybody on
// loopback may be.
func Postgres(ctx context.Context, c PostgresConfig) (*Server, error) {
	programs := c.Programs
	if programs == "" {
		programs = postgresPrograms()
	}
	if programs == "" {
		return nil, fmt.Errorf("servers: PostgreSQL: %w (Debian: postgresql)", ErrMissing)
	}
	params := map[string]string{"fsync": "off", "max_connections": "100", "listen_addresses": "127.0.0.1",
		"shared_memory_type": "mmap", "dynamic_shared_memory_type": "mmap", "log_min_messages": "fatal"}
	maps.Copy(params, c.Settings)
	return start(ctx, spec{
		name: "PostgreSQL", user: "postgres", ask: syscall.SIGQUIT,
		prepare: func(run func(string, ...string) error, dir string) error {
			return run(filepath.Join(programs, "initdb"), "--pgdata", filepath.Join(dir, "data"), "--username", "postgres",
				"--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C")
		},
		command: func(dir string, port, _ int) []string {
			words := []string{filepath.Join(programs, "postgres"), "-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port), "-k", dir}
			return append(words, settings("", params, func(name, value string) []string { return []string{"-c", name + "=" + value} })...)
		},
		ready: func(ctx context.Context, port int) error {
			conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=1", port))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	})
}

// postgresPrograms finds the newest PostgreSQL of this machine.
func postgresPrograms() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func sorted(params map[string]string) []string { return slices.Sorted(maps.Keys(params)) }
