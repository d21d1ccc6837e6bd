package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// SolrConfig says how Solr is started.
type SolrConfig struct {
	// Handlers is the directory tracer/solr of a checkout: its handlers are built with javac and are those
	// of the core. Required.
	Handlers string
	// Slots is how many queries run at once, 0 for no bound.
	Slots int
	// HeapMiB is the size of the heap. Default 512.
	HeapMiB int
	// Fetch allows to fetch Solr from Maven Central with mvn, 83 MB, if it is not in the user's cache
	// directory. Default: ErrMissing then.
	Fetch bool
}

// Solr's jars, without a distribution, which Maven Central does not have.
const (
	solrName    = "Solr"
	solrVersion = "9.9.0"
	solrSum     = "ea48b41b313924cd33ee61bc32506913e9087bba8ac4e58c5b994cb3363968c0" // SHA-256 of the output of sha256sum *.jar
	solrPOM     = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>spillgate</groupId><artifactId>solr</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.solr</groupId><artifactId>solr-core</artifactId><version>` + solrVersion + `</version></dependency>
<dependency><groupId>org.apache.solr</groupId><artifactId>solr-test-framework</artifactId><version>` + solrVersion + `</version></dependency></dependencies></project>`
)

// The core docs: documents with a number, a text and any strings s_….
const (
	solrXML    = `<solr><int name="maxBooleanClauses">200000</int></solr>`
	solrConfig = `<config><luceneMatchVersion>9.12</luceneMatchVersion><directoryFactory name="DirectoryFactory" class="solr.MMapDirectoryFactory"/><schemaFactory class="ClassicIndexSchemaFactory"/>
<updateHandler class="solr.DirectUpdateHandler2"/><query><maxBooleanClauses>200000</maxBooleanClauses></query>
<requestHandler name="/select" class="spillgate.solr.WatchedSearchHandler"><int name="slots">%d</int><str name="tasks">%s</str></requestHandler>
<searchComponent name="locking" class="spillgate.solr.LockingComponent"/>
<requestHandler name="/locking" class="spillgate.solr.WatchedSearchHandler"><arr name="last-components"><str>locking</str></arr></requestHandler>
<requestHandler name="/spillgate" class="spillgate.solr.QueriesHandler"/>
<indexReaderFactory name="IndexReaderFactory" class="spillgate.solr.CancellableReaderFactory"/></config>`
	solrSchema = `<schema name="docs" version="1.6"><fieldType name="string" class="solr.StrField" docValues="true"/><fieldType name="int" class="solr.IntPointField" docValues="true"/>
<fieldType name="text" class="solr.TextField"><analyzer><tokenizer class="solr.WhitespaceTokenizerFactory"/></analyzer></fieldType>
<field name="id" type="string" required="true"/><field name="n" type="int"/><field name="body" type="text"/><dynamicField name="s_*" type="string"/><uniqueKey>id</uniqueKey></schema>`
)

// Solr starts Solr 9.9, without users, with an empty core docs.
func Solr(ctx context.Context, c SolrConfig) (*Server, error) {
	jars, err := solrJars(ctx, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("servers: Solr: %w", err)
	}
	java, err := javaHome(17)
	if err != nil {
		return nil, fmt.Errorf("servers: Solr: %w", err)
	}
	javac := filepath.Join(java, "bin", "javac")
	if _, err := os.Stat(javac); err != nil {
		return nil, fmt.Errorf("servers: Solr: %w: %s has no javac", ErrMissing, java)
	}
	heap := 512
	if c.HeapMiB > 0 {
		heap = c.HeapMiB
	}
	return start(ctx, spec{
		name: solrName, user: "root", ask: syscall.SIGTERM, patience: searchPatience,
		prepare: func(run func(string, ...string) error, dir string) error {
			if err := writeCore(dir, c.Slots); err != nil {
				return err
			}
			if err := run("bash", filepath.Join(c.Handlers, "build.sh"), jars, filepath.Join(dir, "built"), javac); err != nil {
				return err
			}
			return run(javac, "-cp", filepath.Join(jars, "*"), "-d", filepath.Join(dir, "built", "classes"), filepath.Join(c.Handlers, "test", "spillgate", "solr", "Node.java"), filepath.Join(c.Handlers, "test", "spillgate", "solr", "LockingComponent.java"))
		},
		command: func(dir string, port, _ int) []string {
			return []string{filepath.Join(java, "bin", "java"), fmt.Sprintf("-Xms%dm", heap), fmt.Sprintf("-Xmx%dm", heap),
				"-Dsolr.disable.allowUrls=true", // a query may name this node as its shard
				"-cp", filepath.Join(dir, "built", "classes") + ":" + filepath.Join(jars, "*"), "spillgate.solr.Node", filepath.Join(dir, "home"), strconv.Itoa(port)}
		},
		ready: func(ctx context.Context, port int) error { return answersHTTP(ctx, port, "/solr/docs/spillgate") },
	})
}

// writeCore makes Solr's home with the core docs, whose task file is below dir.
func writeCore(dir string, slots int) error {
	home := filepath.Join(dir, "home")
	conf := filepath.Join(home, "docs", "conf")
	err := errors.Join(os.MkdirAll(conf, 0o755), os.Mkdir(filepath.Join(dir, "tasks"), 0o700))
	for name, text := range map[string]string{filepath.Join(home, "solr.xml"): solrXML, filepath.Join(home, "docs", "core.properties"): "name=docs\n",
		filepath.Join(conf, "solrconfig.xml"): fmt.Sprintf(solrConfig, slots, filepath.Join(dir, "tasks", "solr.${solr.core.name}.tasks")), filepath.Join(conf, "schema.xml"): solrSchema} {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
	}
	return err
}

// solrJars returns the directory of Solr's jars.
func solrJars(ctx context.Context, fetch bool) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "spillgate", "solr-"+solrVersion)
	if _, err := os.Stat(dir); err == nil {
		return dir, checkJars(dir)
	}
	mvn, err := exec.LookPath("mvn")
	if !fetch || err != nil {
		return "", fmt.Errorf("%w: %s is not there, and was not asked to be fetched with mvn", ErrMissing, dir)
	}
	work, err := os.MkdirTemp("", "spillgate-mvn-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, []byte(solrPOM), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir) // half of it may be there
		return "", fmt.Errorf("mvn: %w: %s", err, tail(string(out)))
	}
	return dir, checkJars(dir)
}

// checkJars compares the checksum of all jars in the order of their names.
func checkJars(dir string) error {
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, jar := range jars {
		f, err := os.Open(jar)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", h.Sum(nil), filepath.Base(jar))
	}
	all := sha256.Sum256([]byte(list.String()))
	if sum := hex.EncodeToString(all[:]); sum != solrSum {
		return fmt.Errorf("%s holds %d jars with the SHA-256 %s, expected %s: remove it", dir, len(jars), sum, solrSum)
	}
	return nil
}

// answersHTTP is the ready of a server that answers to GET of a path.
func answersHTTP(ctx context.Context, port int, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return err
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}
