package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// webUser is the user that Apache and PHP-FPM run as if root starts them.
const webUser = "www-data"

// ApacheConfig says how an Apache httpd is started: with no more modules than these fields need.
type ApacheConfig struct {
	// Workers is how many requests are served at once. Default 4.
	Workers int
	// Event serves requests in threads of one process, and not in processes (MPM prefork).
	Event bool
	// Files are the documents, by name.
	Files map[string]string
	// PHP runs documents that end in .php inside of the server.
	PHP bool
	// Module is the path of mod_spillgate.so, see ApacheModule; empty is without. Its task file is
	// TaskFile of the server.
	Module string
	// Modules are further ones to load, such as proxy_fcgi, and Settings more lines of the
	// configuration.
	Modules  []string
	Settings string
	// Env is added to the server's environment.
	Env []string
	// CPUs are the processors, numbered from 0, that the server is pinned to where there is
	// taskset. Default: none.
	CPUs []int
}

// TaskFile returns the path of the task file of an Apache with a Module, of an OpenSearch or Elasticsearch with a Plugin, or of a Solr.
func (s *Server) TaskFile() string {
	switch s.Name {
	case openSearch.name, elasticsearch.name:
		return filepath.Join(s.Dir, "tasks", strings.ToLower(s.Name)+".tasks")
	case solrName:
		return filepath.Join(s.Dir, "tasks", "solr.docs.tasks")
	}
	return filepath.Join(s.Dir, "tasks")
}

// Apache starts an Apache httpd that may be thrown away.
func Apache(ctx context.Context, c ApacheConfig) (*Server, error) {
	program, errProgram := first(exec.LookPath, "apache2", "/usr/sbin/apache2", "httpd", "/usr/sbin/httpd")
	modules, errModules := first(directory, "/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
	if errors.Join(errProgram, errModules) != nil {
		return nil, fmt.Errorf("servers: Apache: %w (Debian: apache2)", ErrMissing)
	}
	if c.PHP {
		found, _ := filepath.Glob(filepath.Join(modules, "libphp*.so"))
		if len(found) == 0 {
			return nil, fmt.Errorf("servers: Apache: PHP: %w (Debian: libapache2-mod-php)", ErrMissing)
		}
		c.Settings += fmt.Sprintf("LoadModule php_module %s\n<FilesMatch \\.php$>\n  SetHandler application/x-httpd-php\n</FilesMatch>\n", found[len(found)-1])
	}
	return start(ctx, spec{
		name: "Apache", ask: syscall.SIGTERM, cpus: c.CPUs,
		prepare: func(_ func(string, ...string) error, dir string) error { return website(dir, c.Files) },
		command: func(dir string, port, _ int) []string {
			file := filepath.Join(dir, "httpd.conf")
			// What cannot be written is told by httpd, which finds no file.
			_ = os.WriteFile(file, []byte(c.text(modules, dir, port)), 0o644)
			return []string{program, "-d", dir, "-f", file, "-DFOREGROUND"}
		},
		env:   func(dir string) []string { return append([]string{"APACHE_RUN_DIR=" + dir, "LANG=C"}, c.Env...) },
		ready: accepts,
	})
}

// text is the configuration.
func (c *ApacheConfig) text(modules, dir string, port int) string {
	if c.Workers == 0 {
		c.Workers = 4
	}
	mpm, room := "mpm_prefork", fmt.Sprintf("StartServers %[1]d\nMinSpareServers %[1]d\nMaxSpareServers %[1]d\nServerLimit %[1]d\nMaxRequestWorkers %[1]d\n", c.Workers)
	if c.Event {
		mpm, room = "mpm_event", fmt.Sprintf("StartServers 1\nServerLimit 1\nThreadsPerChild %[1]d\nThreadLimit %[1]d\nMinSpareThreads 1\nMaxSpareThreads %[1]d\nMaxRequestWorkers %[1]d\n", c.Workers)
	}
	var t strings.Builder
	for _, m := range append([]string{mpm, "unixd", "authz_core", "mime", "dir"}, c.Modules...) {
		if path := filepath.Join(modules, "mod_"+m+".so"); exists(path) { // some are built in
			fmt.Fprintf(&t, "LoadModule %s_module %s\n", m, path)
		}
	}
	if os.Getuid() == 0 {
		fmt.Fprintf(&t, "User %[1]s\nGroup %[1]s\n", webUser)
	}
	fmt.Fprintf(&t, "ServerRoot %[1]s\nPidFile %[1]s/pid\nErrorLog %[1]s/log\nListen 127.0.0.1:%[2]d\nServerName localhost\nMutex file:%[1]s\nDocumentRoot %[1]s/www\nTypesConfig /dev/null\n%[3]sKeepAliveTimeout 1\n", dir, port, room)
	if c.Module != "" {
		fmt.Fprintf(&t, "LoadModule spillgate_module %s\nSpillgateTaskFile %s/tasks\n", c.Module, dir)
	}
	return t.String() + c.Settings
}

// website makes the documents, for a user that this process may not be.
func website(dir string, files map[string]string) error {
	www := filepath.Join(dir, "www")
	errs := []error{os.Chmod(dir, 0o755), os.Mkdir(www, 0o755)}
	for _, name := range sorted(files) {
		errs = append(errs, os.WriteFile(filepath.Join(www, name), []byte(files[name]), 0o644))
	}
	return errors.Join(errs...)
}

// first returns the first of some names that is there.
func first(look func(string) (string, error), names ...string) (string, error) {
	var err error
	for _, name := range names {
		var path string
		if path, err = look(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

func directory(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("no directory")
	}
	return path, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ApacheModule builds mod_spillgate.so into a directory, from the sources above the working
// directory. Flags are further ones of the compiler, such as for sanitizers.
func ApacheModule(ctx context.Context, dir string, flags ...string) (path string, err error) {
	for _, tools := range [][]string{{"apxs2", "apxs"}, {"make"}, {"cc"}} {
		if _, err := first(exec.LookPath, tools...); err != nil {
			return "", fmt.Errorf("servers: mod_spillgate: %s: %w (Debian: apache2-dev, make, gcc)", tools[0], ErrMissing)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	source := filepath.Join("tracer", "apache")
	for !exists(filepath.Join(root, source, "mod_spillgate.c")) {
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("servers: mod_spillgate: %w: it is built from %s, which is not above the working directory; run this in a checkout", ErrMissing, source)
		}
		root = filepath.Dir(root)
	}
	path = filepath.Join(dir, "mod_spillgate.so")
	cmd := exec.CommandContext(ctx, "make", "-s", "-C", filepath.Join(root, source), "OUT="+path, "CFLAGS=-O1 -g "+strings.Join(flags, " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: mod_spillgate: %w: %s", err, tail(string(out)))
	}
	return path, os.Chmod(path, 0o755)
}
