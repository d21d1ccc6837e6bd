package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// SearchConfig says how OpenSearch or Elasticsearch is started. The zero SearchConfig is a cluster of
// one node that may be thrown away.
type SearchConfig struct {
	// Settings are lines of the configuration file, by name. They stand before those of the package.
	Settings map[string]string
	// HeapMiB is the size of the heap. Default 512.
	HeapMiB int
	// Plugin is the directory tracer/opensearch, or tracer/elasticsearch, of a checkout: the plugin is built with the javac of the server's
	// Java, and writes TaskFile. The server then runs as this process's user, because a task file is of one user.
	// Default: none.
	Plugin string
	// Fetch allows to fetch the server from Maven Central with mvn, 97 or 133 MB, if it is not in the
	// user's cache directory. Default: ErrMissing then.
	Fetch bool
}

// searchKind is a distribution without plugins, which its project publishes for integration tests.
type searchKind struct {
	name, program, variables string
	artifact, file, sum      string
	java                     int // the least version
	settings                 map[string]string
}

var openSearch = searchKind{
	name: "OpenSearch", program: "opensearch", variables: "OPENSEARCH", java: 21,
	artifact: "org.opensearch.distribution.integ-test-zip:opensearch:3.4.0:zip", file: "opensearch-3.4.0.zip",
	sum: "6540e95fe8bfaedc3eb1c58e829912ea2203af2ac1f88f76411c20a2fc5254a6",
}

var elasticsearch = searchKind{
	name: "Elasticsearch", program: "elasticsearch", variables: "ES", java: 17,
	artifact: "org.elasticsearch.distribution.integ-test-zip:elasticsearch:8.19.0:zip", file: "elasticsearch-8.19.0.zip",
	sum:      "14833b2d86c30656901f92049f81fb5777a8e4545413c8656cd1a21b55173033",
	settings: map[string]string{"xpack.security.enabled": "false", "xpack.ml.enabled": "false"},
}

// OpenSearch starts OpenSearch 3.4, without users.
func OpenSearch(ctx context.Context, c SearchConfig) (*Server, error) {
	return openSearch.start(ctx, c)
}

// Elasticsearch starts Elasticsearch 8.19, without users.
func Elasticsearch(ctx context.Context, c SearchConfig) (*Server, error) {
	return elasticsearch.start(ctx, c)
}

// searchPatience is how long a node may take to start: 10 s on two idle processors, 4 minutes where thirty others want them.
const searchPatience = 6 * time.Minute

func (k *searchKind) start(ctx context.Context, c SearchConfig) (*Server, error) {
	archive, err := k.fetched(ctx, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("servers: %s: %w", k.name, err)
	}
	java, err := javaHome(k.java)
	if err != nil {
		return nil, fmt.Errorf("servers: %s: %w", k.name, err)
	}
	heap := 512
	if c.HeapMiB > 0 {
		heap = c.HeapMiB
	}
	root := func(dir string) string { return filepath.Join(dir, strings.TrimSuffix(k.file, ".zip")) }
	user, prefix := "nobody", []string(nil)
	if c.Plugin != "" {
		if user = ""; os.Getuid() == 0 {
			prefix = notRoot
		}
	}
	return start(ctx, spec{
		name: k.name, user: user, ask: syscall.SIGTERM, extra: true, patience: searchPatience,
		prepare: func(run func(string, ...string) error, dir string) error {
			if err := unzip(archive, dir); err != nil {
				return err
			}
			if c.Plugin == "" {
				return k.configure(root(dir), dir, heap, nil)
			}
			tasks := filepath.Join(dir, "tasks")
			return errors.Join(os.Mkdir(tasks, 0o700), k.configure(root(dir), dir, heap, []string{"-Dspillgate.tasks=" + tasks}),
				install(run, c.Plugin, root(dir), dir, filepath.Join(java, "bin", "javac"), tasks))
		},
		command: func(dir string, port, extra int) []string {
			params := map[string]string{"cluster.name": "spillgate", "node.name": "one", "path.data": filepath.Join(dir, "data"), "path.logs": filepath.Join(dir, "logs"),
				"network.host": "127.0.0.1", "http.port": strconv.Itoa(port), "transport.port": strconv.Itoa(extra), "discovery.type": "single-node",
				"cluster.routing.allocation.disk.threshold_enabled": "false"}
			maps.Copy(params, k.settings)
			maps.Copy(params, c.Settings)
			words := slices.Concat(prefix, []string{filepath.Join(root(dir), "bin", k.program)})
			return append(words, settings("-E", params, func(name, value string) []string { return []string{name + "=" + value} })...)
		},
		env: func(dir string) []string {
			return []string{k.variables + "_JAVA_HOME=" + java, k.variables + "_TMPDIR=" + filepath.Join(dir, "tmp"), "HOME=" + dir}
		},
		// The distribution of Elasticsearch for tests has no answer to "/".
		ready: func(ctx context.Context, port int) error { return answersHTTP(ctx, port, "/_cluster/health") },
	})
}

// fetched returns the archive.
func (k *searchKind) fetched(ctx context.Context, fetch bool) (string, error) {
	return mavenFile(ctx, mavenArtifact{name: k.artifact, file: k.file, sum: k.sum}, fetch)
}

// notRoot runs a program that refuses to run as root, whose files are root's all the same.
var notRoot = []string{"unshare", "--user", "--map-user=65534", "--map-group=65534"}

// install builds a plugin and puts it where the server looks for it.
func install(run func(string, ...string) error, plugin, root, dir, javac, tasks string) error {
	if _, err := os.Stat(javac); err != nil {
		return fmt.Errorf("%w: there is no %s", ErrMissing, javac)
	}
	built := filepath.Join(dir, "built")
	if err := run("bash", filepath.Join(plugin, "build.sh"), root, built, javac, tasks); err != nil {
		return err
	}
	return os.Rename(filepath.Join(built, "spillgate"), filepath.Join(root, "plugins", "spillgate"))
}

// configure sets the heap and more options, and leaves out logs and dumps, whose places are relative to a directory that
// is not the server's.
func (k *searchKind) configure(root, dir string, heap int, options []string) error {
	file := filepath.Join(root, "config", "jvm.options")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := append([]string{fmt.Sprintf("-Xms%dm", heap), fmt.Sprintf("-Xmx%dm", heap)}, options...)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "HeapDump") && !strings.Contains(line, "-Xlog") && !strings.Contains(line, "ErrorFile") &&
			!strings.HasPrefix(line, "-Xm") && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	// The server writes its keys into its own configuration. It refuses a directory for temporary files that
	// its own files are in.
	err = opened(filepath.Join(root, "config"))
	for _, name := range []string{root, filepath.Join(dir, "data"), filepath.Join(dir, "logs"), filepath.Join(dir, "tmp")} {
		err = errors.Join(err, os.MkdirAll(name, 0o777), opened(name))
	}
	return err
}

// opened lets the server's user write into a directory below its own, which nobody else can enter.
func opened(dir string) error { return os.Chmod(dir, 0o777) }
