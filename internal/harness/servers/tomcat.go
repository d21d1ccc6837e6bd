package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// TomcatConfig says how a Tomcat 10 is started, with one web application.
type TomcatConfig struct {
	// Sources are the Java sources of the application, by name. They are compiled against
	// the Servlet API alone.
	Sources map[string]string
	// Descriptor is the text of the application's web.xml.
	Descriptor string
	// Connector are further attributes of the connector, such as maxThreads="8". Default
	// none: those that Tomcat has by itself.
	Connector string
	// CPUs are the processors, numbered from 0, that the server is pinned to where there is
	// taskset. Default: none.
	CPUs []int
}

// TomcatHome returns where Tomcat 10 is: where CATALINA_HOME says, or where Debian puts it.
func TomcatHome() (string, error) {
	home := "/usr/share/tomcat10"
	if own := os.Getenv("CATALINA_HOME"); own != "" {
		home = own
	}
	if !exists(filepath.Join(home, "lib", "servlet-api.jar")) {
		return "", fmt.Errorf("servers: Tomcat 10 in %s: %w (Debian: tomcat10)", home, ErrMissing)
	}
	return home, nil
}

// Tomcat starts a Tomcat that may be thrown away.
func Tomcat(ctx context.Context, c TomcatConfig) (*Server, error) {
	home, errHome := TomcatHome()
	java, errJava := javaHome(17)
	javac := filepath.Join(java, "bin", "javac")
	if errJava == nil && !exists(javac) {
		errJava = fmt.Errorf("%w: %s has no javac (Debian: default-jdk-headless)", ErrMissing, java)
	}
	if err := errors.Join(errHome, errJava); err != nil {
		return nil, fmt.Errorf("servers: Tomcat: %w", err)
	}
	return start(ctx, spec{
		name: "Tomcat", ask: syscall.SIGTERM, cpus: c.CPUs,
		prepare: func(run func(string, ...string) error, dir string) error {
			files, err := c.write(dir)
			if err != nil {
				return err
			}
			return run(javac, append([]string{"--release", "17", "-cp", filepath.Join(home, "lib", "servlet-api.jar"), "-d", filepath.Join(dir, "app", "WEB-INF", "classes")}, files...)...)
		},
		command: func(dir string, port, _ int) []string {
			// What cannot be written is told by Tomcat, which finds no file.
			_ = os.WriteFile(filepath.Join(dir, "conf", "server.xml"), fmt.Appendf(nil, tomcatXML, port, c.Connector, filepath.Join(dir, "app")), 0o644)
			return []string{filepath.Join(java, "bin", "java"), "-Xmx256m", "-XX:+UseSerialGC",
				"-cp", filepath.Join(home, "bin", "bootstrap.jar") + ":" + filepath.Join(home, "bin", "tomcat-juli.jar"),
				"-Dcatalina.home=" + home, "-Dcatalina.base=" + dir, "-Djava.io.tmpdir=" + filepath.Join(dir, "temp"),
				"-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true",
				"org.apache.catalina.startup.Bootstrap", "start"}
		},
		ready: accepts,
	})
}

// tomcatXML is all that a server has beside Tomcat's defaults.
const tomcatXML = `<Server port="-1"><Service name="Catalina">
<Connector address="127.0.0.1" port="%d" protocol="HTTP/1.1" %s/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="none" autoDeploy="false">
<Context path="" docBase="%s"><JarScanner scanClassPath="false" scanManifest="false"/></Context>
</Host></Engine></Service></Server>
`

// write makes Tomcat's directories and the application, and returns where its sources are.
func (c *TomcatConfig) write(dir string) (sources []string, err error) {
	for _, d := range []string{"conf", "temp", "work", "logs", filepath.Join("app", "WEB-INF", "classes")} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	inf := filepath.Join(dir, "app", "WEB-INF")
	for _, name := range sorted(c.Sources) {
		sources = append(sources, filepath.Join(inf, name))
		err = errors.Join(err, os.WriteFile(filepath.Join(inf, name), []byte(c.Sources[name]), 0o644))
	}
	return sources, errors.Join(err, os.WriteFile(filepath.Join(inf, "web.xml"), []byte(c.Descriptor), 0o644),
		os.WriteFile(filepath.Join(dir, "conf", "web.xml"), []byte(`<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>`), 0o644))
}
