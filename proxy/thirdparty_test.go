package proxy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/harness/freeport"
	"github.com/spillgate/spillgate/internal/needs"
)

// Unmodified servers, as their users run them: what they answer through the
// proxy is what they answer without it.

func TestNginx(t *testing.T) {
	nginx := needs.Program(t, "nginx", "/usr/sbin/nginx")
	dir, addr := t.TempDir(), freeAddr(t)
	www := website(t, dir)
	conf := fmt.Sprintf(`daemon off;
%s
pid %[2]s/nginx.pid;
error_log %[2]s/error.log;
worker_processes 2;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi; scgi_temp_path %[2]s/scgi;
  types { text/html html; text/plain txt; }
  gzip on; gzip_types text/plain; gzip_min_length 1;
  server {
    listen %[3]s;
    root %[4]s;
    client_max_body_size 100m;
    location /upload/ { dav_methods PUT DELETE; create_full_put_path on; }
    location = /moved { return 302 /index.html; }
  }
}
`, map[bool]string{true: "user root;"}[os.Getuid() == 0], dir, addr, www)
	run(t, addr, exec.Command(nginx, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", file(t, dir, "nginx.conf", conf)))
	compare(t, addr, "/moved")
}

func TestApache(t *testing.T) {
	apache := needs.Program(t, "apache2", "/usr/sbin/apache2", "httpd")
	modules := needs.Dir(t, "/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
	dir, addr := t.TempDir(), freeAddr(t)
	www := website(t, dir)
	var load strings.Builder
	for _, m := range []string{"mpm_event", "unixd", "authz_core", "dir", "mime", "deflate", "filter", "alias", "dav", "dav_fs", "env", "headers"} {
		if path := filepath.Join(modules, "mod_"+m+".so"); exists(path) { // some are built in
			fmt.Fprintf(&load, "LoadModule %s_module %s\n", m, path)
		}
	}
	conf := fmt.Sprintf(`ServerRoot %[1]s
PidFile %[1]s/apache.pid
ErrorLog %[1]s/error.log
Listen %[2]s
ServerName localhost
Mutex file:%[1]s
%[3]s
DocumentRoot %[4]s
DirectoryIndex index.html
TypesConfig /dev/null
AddType text/html .html
AddType text/plain .txt
AddOutputFilterByType DEFLATE text/plain
DAVLockDB %[1]s/lock
<Directory %[4]s/upload>
  DAV On
</Directory>
Redirect 302 /moved http://%[2]s/index.html
`, dir, addr, load.String(), www)
	cmd := exec.Command(apache, "-d", dir, "-f", file(t, dir, "apache.conf", conf), "-DFOREGROUND")
	cmd.Env = append(os.Environ(), "APACHE_RUN_DIR="+dir, "LANG=C")
	if os.Getuid() == 0 {
		// The worker processes are another user's.
		open(t, dir)
	}
	run(t, addr, cmd)
	compare(t, addr, "/moved")
}

func TestTomcat(t *testing.T) {
	home := needs.Dir(t, "/usr/share/tomcat10", "/usr/share/tomcat9")
	java := needs.Program(t, "java")
	dir, addr := t.TempDir(), freeAddr(t)
	www := website(t, filepath.Join(mkdir(t, dir, "webapps")))
	if err := os.Rename(www, filepath.Join(dir, "webapps", "ROOT")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"conf", "temp", "work", "logs"} {
		mkdir(t, dir, d)
	}
	host, port, _ := net.SplitHostPort(addr)
	file(t, dir, "conf/server.xml", fmt.Sprintf(`<Server port="-1"><Service name="Catalina">
<Connector address="%s" port="%s" protocol="HTTP/1.1" maxThreads="16" compression="on" compressionMinSize="1"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps"/></Engine>
</Service></Server>`, host, port))
	file(t, dir, "conf/web.xml", `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
<servlet><servlet-name>default</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
<init-param><param-name>readonly</param-name><param-value>false</param-value></init-param></servlet>
<servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
<mime-mapping><extension>html</extension><mime-type>text/html</mime-type></mime-mapping>
<mime-mapping><extension>txt</extension><mime-type>text/plain</mime-type></mime-mapping>
<welcome-file-list><welcome-file>index.html</welcome-file></welcome-file-list></web-app>`)
	cmd := exec.Command(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", filepath.Join(home, "bin/bootstrap.jar")+":"+filepath.Join(home, "bin/tomcat-juli.jar"),
		"-Dcatalina.home="+home, "-Dcatalina.base="+dir, "-Djava.io.tmpdir="+filepath.Join(dir, "temp"),
		"org.apache.catalina.startup.Bootstrap", "start")
	run(t, addr, cmd)
	// Tomcat redirects a directory without its slash.
	compare(t, addr, "/upload")
}

// compare sends the same requests to the server and through the proxy.
func compare(t *testing.T, addr, moved string) {
	p := start(t, to("http://"+addr))
	noFollow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	direct := client(t, 1, nil)
	direct.CheckRedirect = noFollow
	for _, major := range []int{1, 2} {
		through := client(t, major, nil)
		through.CheckRedirect = noFollow
		for _, test := range []struct {
			method, path string
			header       http.Header
			body         string
		}{
			{"GET", "/", nil, ""},
			{"HEAD", "/large.txt", nil, ""},
			{"GET", "/large.txt", nil, ""},
			{"GET", "/large.txt", http.Header{"Range": {"bytes=100-199"}}, ""},
			{"GET", "/large.txt", http.Header{"Range": {"bytes=0-9,1000-1009"}}, ""},
			{"GET", "/large.txt", http.Header{"Range": {"bytes=99999999-"}}, ""},
			{"GET", "/page.txt", http.Header{"Accept-Encoding": {"gzip"}}, ""},
			{"GET", "/a%20b%2Bc.txt", nil, ""},
			{"GET", "/missing?x=%zz&y=1;z", nil, ""},
			{"GET", moved, nil, ""},
			{"OPTIONS", "/", nil, ""},
			{"POST", "/index.html", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "a=1"},
			{"PUT", "/upload/x.txt", nil, strings.Repeat("0123456789", 400_000)},
			{"GET", "/upload/x.txt", nil, ""},
			{"DELETE", "/upload/x.txt", nil, ""},
		} {
			name := fmt.Sprintf("HTTP/%d %s %s %v", major, test.method, test.path, test.header)
			ask := func(c *http.Client, base string) (*http.Response, string) {
				r, err := http.NewRequest(test.method, base+test.path, strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "localhost"
				for k, v := range test.header {
					r.Header[k] = v
				}
				resp, err := c.Do(r)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return resp, read(t, resp)
			}
			want, wantBody := ask(direct, "http://"+addr)
			if test.method == "PUT" || test.method == "DELETE" {
				// Undo, so that both do the same.
				undo, body := "DELETE", ""
				if test.method == "DELETE" {
					undo, body = "PUT", "x"
				}
				r, _ := http.NewRequest(undo, "http://"+addr+test.path, strings.NewReader(body))
				r.Host = "localhost"
				resp, err := direct.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
			}
			got, gotBody := ask(through, p.url)
			if got.StatusCode != want.StatusCode {
				t.Errorf("%s: status %d, directly %d", name, got.StatusCode, want.StatusCode)
			}
			multipart := strings.HasPrefix(want.Header.Get("Content-Type"), "multipart/") // has a boundary made up anew
			if gotBody != wantBody && !(multipart && len(gotBody) == len(wantBody)) {
				t.Errorf("%s: body of %d bytes, directly %d", name, len(gotBody), len(wantBody))
			}
			if test.path == "/upload/x.txt" {
				// What was written just now has a weak tag, until the server thinks that it is
				// old enough for a strong one.
				for _, r := range []*http.Response{got, want} {
					if tag := r.Header.Get("Etag"); tag != "" {
						r.Header.Set("Etag", strings.TrimPrefix(tag, "W/"))
					}
				}
			}
			for _, h := range []string{"Content-Type", "Content-Length", "Content-Range", "Content-Encoding", "Etag", "Last-Modified", "Accept-Ranges", "Location", "Allow", "Vary"} {
				if g, w := got.Header.Get(h), want.Header.Get(h); g != w && !(multipart && h == "Content-Type") {
					t.Errorf("%s: %s %q, directly %q", name, h, g, w)
				}
			}
		}
	}
	// What is unchanged is not sent again.
	c := client(t, 1, nil)
	resp, _ := get(t, c, p.url+"/large.txt")
	r, _ := http.NewRequest("GET", p.url+"/large.txt", nil)
	r.Header.Set("If-None-Match", resp.Header.Get("Etag"))
	if resp, err := c.Do(r); err != nil || resp.StatusCode != http.StatusNotModified {
		t.Errorf("unchanged: %v %v", resp, err)
	}
	// A body of unknown length.
	r, _ = http.NewRequest("PUT", p.url+"/upload/chunked.txt", io.MultiReader(strings.NewReader("chunk"), bytes.NewReader(make([]byte, 1<<20))))
	r.Host = "localhost"
	if resp, err := c.Do(r); err != nil || resp.StatusCode/100 != 2 {
		t.Errorf("a chunked upload: %v %v", resp, err)
	} else {
		read(t, resp)
	}
	if _, body := get(t, c, "http://"+addr+"/upload/chunked.txt"); len(body) != 5+1<<20 {
		t.Errorf("a chunked upload arrived with %d bytes", len(body))
	}
	// Many requests at once, each on kept connections.
	sum := sha256.Sum256([]byte(readFile(t, c, "http://"+addr+"/large.txt")))
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			var err error
			for range 5 {
				resp, e := c.Get(p.url + "/large.txt")
				if e != nil {
					err = e
					break
				}
				b, e := io.ReadAll(resp.Body)
				resp.Body.Close()
				if e != nil || sha256.Sum256(b) != sum {
					err = fmt.Errorf("status %d, %d bytes, %v", resp.StatusCode, len(b), e)
				}
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := await.Value(t, errs, "a request to end"); err != nil {
			t.Error(err)
		}
	}
	if s := p.Status().Upstreams[0]; s.Running != 0 || len(s.Refused) != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}

func readFile(t *testing.T, c *http.Client, url string) string {
	_, body := get(t, c, url)
	return body
}

// website writes what the servers serve and returns its directory.
func website(t *testing.T, dir string) string {
	t.Helper()
	www := mkdir(t, dir, "www")
	mkdir(t, www, "upload")
	random := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 2<<20)
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	file(t, www, "index.html", "<html>hello</html>")
	file(t, www, "page.txt", strings.Repeat("compress me ", 1000))
	file(t, www, "a b+c.txt", "an awkward name")
	file(t, www, "large.txt", string(large))
	file(t, www, "upload/index.html", "uploads")
	old := time.Now().Add(-time.Hour) // what changed just now has no firm identity
	for _, name := range []string{"index.html", "page.txt", "a b+c.txt", "large.txt", "upload/index.html"} {
		if err := os.Chtimes(filepath.Join(www, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	return www
}

// run starts a server, waits until it answers, and stops it when the test ends.
func run(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		// The whole group: servers have worker processes.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/")
		if err == nil {
			resp.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			return
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", cmd.Path, err, out.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer\n%s", cmd.Path, out.String())
		}
	}
}

// freeAddr returns an address that was free a moment ago: these servers cannot be
// asked for port 0. It is none of the ports from 32768 on that Linux gives to connections, one
// of which would take it before the server does.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := freeport.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// open lets every user write below dir.
func open(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o777)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
