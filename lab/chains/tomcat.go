package chains

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

// webapp is the source of the web application.
//
//go:embed webapp
var webapp embed.FS

// ErrNoTomcat is what StartTomcats fails with where Tomcat or a JDK is missing.
var ErrNoTomcat = errors.New("not installed; scripts/deps.sh tomcat10 default-jdk-headless installs it on Debian")

// tomcat is an installation.
type tomcat struct{ home, java, javac string }

// findTomcat looks where Debian puts Tomcat 10, or where CATALINA_HOME says that it
// is.
func findTomcat() (tomcat, error) {
	var t tomcat
	var errs []error
	homes := []string{"/usr/share/tomcat10"}
	if home := os.Getenv("CATALINA_HOME"); home != "" {
		homes = []string{home}
	}
	for _, home := range homes {
		if _, err := os.Stat(filepath.Join(home, "lib", "servlet-api.jar")); err == nil {
			t.home = home
		}
	}
	if t.home == "" {
		errs = append(errs, fmt.Errorf("chains: Tomcat 10 in %s: %w", strings.Join(homes, " or "), ErrNoTomcat))
	}
	for name, path := range map[string]*string{"java": &t.java, "javac": &t.javac} {
		var err error
		if *path, err = exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("chains: %s: %w", name, ErrNoTomcat))
		}
	}
	return t, errors.Join(errs...)
}

// StartTomcats builds the web application and starts unmodified Tomcat servers with
// it. They are not pinned: four virtual machines that compile are more than one
// processor has time for at first. Put proxies in front with Front. Close the bed in
// the end; the end of ctx ends the servers as well. The error wraps ErrNoTomcat where
// something is not installed.
func StartTomcats(ctx context.Context, s Setting) (_ *Bed, err error) {
	s, err = s.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := findTomcat()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spillgate-chains-")
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	b := &Bed{setting: s, dir: dir}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	app := filepath.Join(dir, "webapp")
	if err := t.build(ctx, app); err != nil {
		return nil, err
	}
	if b.servers, err = freeAddrs(s.Servers); err != nil {
		return nil, err
	}
	b.fronts = b.servers
	for i, addr := range b.servers {
		base := filepath.Join(dir, fmt.Sprintf("tomcat%d", i))
		child, err := t.start(ctx, s, i, base, app, addr)
		if err != nil {
			return nil, err
		}
		b.children = append(b.children, child)
	}
	for i, addr := range b.servers {
		if err := await(ctx, b.children[i], "http://"+addr+"/stats"); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// build compiles the web application into a directory.
func (t tomcat) build(ctx context.Context, app string) error {
	classes := filepath.Join(app, "WEB-INF", "classes")
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	entries, err := webapp.ReadDir("webapp")
	if err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	args := []string{"-Xlint:all", "-Werror", "--release", "17", "-cp", filepath.Join(t.home, "lib", "servlet-api.jar"), "-d", classes}
	for _, e := range entries {
		text, err := webapp.ReadFile("webapp/" + e.Name())
		if err != nil {
			return fmt.Errorf("chains: %w", err)
		}
		to := filepath.Join(app, "WEB-INF", e.Name())
		if strings.HasSuffix(e.Name(), ".java") {
			args = append(args, to)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return fmt.Errorf("chains: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, t.javac, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("chains: javac: %w\n%s", err, out)
	}
	return nil
}

// serverXML is all that a server has beside Tomcat's defaults. Threads cost memory
// alone, and must be enough for all who wait here or have called another server:
// chains that hold the last threads of each other's servers would never end.
const serverXML = `<Server port="-1"><Service name="Catalina">
<Connector address="%s" port="%s" protocol="HTTP/1.1" maxThreads="2000" acceptCount="2000" maxConnections="8000"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="none" autoDeploy="false">
<Context path="" docBase="%s"><JarScanner scanClassPath="false" scanManifest="false"/></Context>
</Host></Engine></Service></Server>
`

// start starts one server with a CATALINA_BASE of its own.
func (t tomcat) start(ctx context.Context, s Setting, i int, base, app, addr string) (*proc.Child, error) {
	for _, d := range []string{"conf", "temp", "work", "logs"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			return nil, fmt.Errorf("chains: %w", err)
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	for name, text := range map[string]string{
		"server.xml": fmt.Sprintf(serverXML, host, port, app),
		"web.xml":    `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>`,
	} {
		if err := os.WriteFile(filepath.Join(base, "conf", name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("chains: %w", err)
		}
	}
	return proc.Start(ctx, proc.Spec{
		Name: fmt.Sprintf("tomcat %d", i), Path: t.java, ReadyTimeout: -1, Nice: -5,
		Args: []string{
			"-Xms32m", "-Xmx128m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-cp", filepath.Join(t.home, "bin", "bootstrap.jar") + ":" + filepath.Join(t.home, "bin", "tomcat-juli.jar"),
			"-Dcatalina.home=" + t.home, "-Dcatalina.base=" + base, "-Djava.io.tmpdir=" + filepath.Join(base, "temp"),
			"-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true",
			fmt.Sprintf("-Dchains.name=server%d", i), fmt.Sprintf("-Dchains.workers=%d", s.Workers),
			fmt.Sprintf("-Dchains.mean_ns=%d", s.Mean.Nanoseconds()), fmt.Sprintf("-Dchains.seed=%d", int64(s.Seed*uint64(s.Servers))+int64(i)),
			"org.apache.catalina.startup.Bootstrap", "start",
		},
	})
}
