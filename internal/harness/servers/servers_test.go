package servers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
)

// asStarter makes the test binary a process that starts a server, says where
// and waits to be killed.
const asStarter = "SPILLGATE_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(asStarter) != "" {
		s, err := servers.Postgres(context.Background(), servers.PostgresConfig{})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.Pid(), s.Dir)
		select {}
	}
	leaks.Verify(m)
}

func TestPostgres(t *testing.T) {
	s, err := servers.Postgres(t.Context(), servers.PostgresConfig{Settings: map[string]string{"max_connections": "37"}})
	servers.SkipMissing(t, err)
	conn, err := pgx.Connect(t.Context(), s.PostgresURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var limit string
	if err := conn.QueryRow(t.Context(), "SHOW max_connections").Scan(&limit); err != nil || limit != "37" {
		t.Errorf("max_connections %q, %v; expected 37", limit, err)
	}
	conn.Close(t.Context())
	s.Stop()
	s.Stop()
	gone(t, s.Pid(), s.Dir)
}

func TestMariaDB(t *testing.T) {
	s, err := servers.MariaDB(t.Context(), servers.MariaDBConfig{ExtraPort: true,
		Settings: map[string]string{"thread-handling": "pool-of-threads", "thread-pool-size": "2"}})
	servers.SkipMissing(t, err)
	defer s.Stop()
	for _, extra := range []bool{false, true} {
		db, err := sql.Open("mysql", s.MySQLDSN("mysql", extra))
		if err != nil {
			t.Fatal(err)
		}
		var how string
		if err := db.QueryRowContext(t.Context(), "SELECT @@thread_handling").Scan(&how); err != nil || how != "pool-of-threads" {
			t.Errorf("extra %v: thread_handling %q, %v", extra, how, err)
		}
		db.Close()
	}
	s.Stop()
	gone(t, s.Pid(), s.Dir)
}

// A context that ends takes the server with it.
func TestTheContextEndsTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := servers.Postgres(ctx, servers.PostgresConfig{})
	servers.SkipMissing(t, err)
	cancel()
	s.Stop() // returns when it has ended
	gone(t, s.Pid(), s.Dir)
}

// A starter that is killed leaves neither process nor directory.
func TestNothingIsLeftOfAKilledStarter(t *testing.T) {
	probe, err := servers.Postgres(t.Context(), servers.PostgresConfig{})
	servers.SkipMissing(t, err)
	probe.Stop()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asStarter+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	if _, err := fmt.Fscan(out, &pid, &dir); err != nil {
		t.Fatalf("the starter did not say where: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, pid, dir)
}

// gone waits until neither process nor directory is left, and fails if that does
// not come to pass.
func gone(t *testing.T, pid int, dir string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // which only ends a hang
		_, errDir := os.Stat(dir)
		state, errProc := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if os.IsNotExist(errDir) && (errProc != nil || strings.Contains(string(state), ") Z ")) {
			return
		}
	}
	t.Errorf("process %d or %s is still there", pid, dir)
}

// MySQL is tested where it was fetched before.
func TestMySQL(t *testing.T) {
	s, err := servers.MySQL(t.Context(), servers.MySQLConfig{Fetch: os.Getenv("SPILLGATE_FETCH") == "1"})
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	db, err := sql.Open("mysql", s.MySQLDSN("mysql", false))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil || !strings.HasPrefix(version, "8.") {
		t.Errorf("version %q, %v", version, err)
	}
	s.Stop()
	gone(t, s.Pid(), s.Dir)
}
