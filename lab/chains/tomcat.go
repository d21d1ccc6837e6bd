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
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
)

// webapp is the source of the web application.
//
//go:embed webapp
var webapp embed.FS

// ErrNoTomcat is what playing Tomcats fails with where Tomcat or a JDK is missing.
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

// tomcatProgram has unmodified Tomcat servers play services whose methods wait and then call at
// most one other. They are not pinned: virtual machines that compile are more than one
// processor has time for at first. The error wraps ErrNoTomcat where something is not
// installed.
func tomcatProgram(ctx context.Context, r *bed.Role) (spec proc.Spec, err error) {
	t, err := findTomcat()
	if err != nil {
		return spec, err
	}
	methods, err := methodsFile(r)
	if err != nil {
		return spec, err
	}
	app := filepath.Join(r.Shared, "webapp")
	if _, err := os.Stat(app); err != nil { // the first of the run
		if err := t.build(ctx, app); err != nil {
			return spec, err
		}
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "methods.properties"), []byte(methods), 0o600); err != nil {
		return spec, fmt.Errorf("chains: %w", err)
	}
	return t.server(r, app)
}

// methodsFile says what the web application does for each method.
func methodsFile(r *bed.Role) (string, error) {
	var b strings.Builder
	for _, m := range r.Service.Methods {
		wait, next := m.Steps[0].Wait, ""
		switch {
		case wait == nil || wait.Shape != world.Exponential || m.Steps[0].Lock != "" || len(m.Steps) > 2 || len(m.Steps) == 2 && len(m.Steps[1].Call) != 1:
			return "", fmt.Errorf("chains: method %s of %s, expected an exponential wait and then at most one call: a Tomcat plays no other", m.Name, r.Service.Name)
		case len(m.Steps) == 2:
			to := m.Steps[1].Call[0]
			next = "http://" + r.Calls[to.Service] + "/" + to.Method
		}
		fmt.Fprintf(&b, "%[1]s.mean_ns=%[2]d\n%[1]s.next=%[3]s\n%[1]s.least=%[4]d\n%[1]s.most=%[5]d\n", m.Name, wait.Mean.Nanoseconds(), next, m.Answer.Least, m.Answer.Most)
	}
	return b.String(), nil
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

// server is one server with a CATALINA_BASE of its own.
func (t tomcat) server(r *bed.Role, app string) (proc.Spec, error) {
	for _, d := range []string{"conf", "temp", "work", "logs"} {
		if err := os.MkdirAll(filepath.Join(r.Dir, d), 0o755); err != nil {
			return proc.Spec{}, fmt.Errorf("chains: %w", err)
		}
	}
	host, port, err := net.SplitHostPort(r.Listen)
	if err != nil {
		return proc.Spec{}, fmt.Errorf("chains: %w", err)
	}
	for name, text := range map[string]string{
		"server.xml": fmt.Sprintf(serverXML, host, port, app),
		"web.xml":    `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>`,
	} {
		if err := os.WriteFile(filepath.Join(r.Dir, "conf", name), []byte(text), 0o644); err != nil {
			return proc.Spec{}, fmt.Errorf("chains: %w", err)
		}
	}
	return proc.Spec{Path: t.java, Nice: -5, Args: []string{
		"-Xms32m", "-Xmx128m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", filepath.Join(t.home, "bin", "bootstrap.jar") + ":" + filepath.Join(t.home, "bin", "tomcat-juli.jar"),
		"-Dcatalina.home=" + t.home, "-Dcatalina.base=" + r.Dir, "-Djava.io.tmpdir=" + filepath.Join(r.Dir, "temp"),
		"-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true",
		"-Dchains.name=" + r.Service.Name, fmt.Sprintf("-Dchains.workers=%d", r.Service.Workers),
		"-Dchains.methods=" + filepath.Join(r.Dir, "methods.properties"), fmt.Sprintf("-Dchains.seed=%d", int64(r.Seed)),
		"org.apache.catalina.startup.Bootstrap", "start",
	}}, nil
}
