package front

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spillgate/spillgate/internal/harness/freeport"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

// Contender is a reverse proxy.
type Contender struct {
	Name string
	// order is what a proxy of ours is told, but for its upstream; nil for all others.
	order *proxyOrder
	// Spec describes its process, one that is alone on its processor, listens on an address
	// and passes requests on to another. It may write files into dir.
	Spec func(dir, listen, upstream string) (proc.Spec, error)
}

const ours = "spillgate"

// nginx returns nginx as a contender, if it is installed. limit is how many requests it has
// under way at once, and refuses what is beyond; 0: any number.
func nginx(limit int) []Contender {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil
	}
	name, zone, limited := "nginx", "", ""
	if limit > 0 {
		name = fmt.Sprintf("nginx, limit_conn %d", limit)
		zone, limited = "limit_conn_zone $server_name zone=all:1m;", fmt.Sprintf("limit_conn all %d;", limit)
	}
	return []Contender{{Name: name, Spec: func(dir, listen, upstream string) (proc.Spec, error) {
		config := filepath.Join(dir, "nginx.conf")
		text := fmt.Sprintf(`pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
worker_rlimit_nofile %[4]d;
events { worker_connections %[4]d; }
http {
  access_log off;
  keepalive_timeout 300s;
  keepalive_requests 1000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream back { server %[3]s; keepalive 64; }
  %[5]s
  server { listen %[2]s; server_name front; %[6]s location / { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}
`, dir, listen, upstream, wanted, zone, limited)
		// One process, as the master would do nothing but wait.
		return proc.Spec{Path: path, Args: []string{"-p", dir, "-c", config, "-g", "daemon off; master_process off;"}}, os.WriteFile(config, []byte(text), 0o600)
	}}}
}

// start starts a contender on the first processor, in front of upstream, and returns once it
// accepts connections.
func (c *Contender) start(ctx context.Context, dir, upstream string) (child *proc.Child, addr string, err error) {
	if c.order != nil {
		told := *c.order
		told.Upstream = upstream
		child, err = role.Start(ctx, order{Proxy: &told}, proc.Spec{Name: c.Name, CPUs: []int{0}})
		if err != nil {
			return nil, "", err
		}
		return child, child.Addr(), nil
	}
	l, err := freeport.Listen()
	if err != nil {
		return nil, "", err
	}
	addr = l.Addr().String()
	_ = l.Close()
	spec, err := c.Spec(dir, addr, upstream)
	if err != nil {
		return nil, "", err
	}
	spec.Name, spec.CPUs, spec.ReadyTimeout = c.Name, []int{0}, -1
	if child, err = proc.Start(ctx, spec); err != nil {
		return nil, "", err
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return child, addr, nil
		}
		if time.Now().After(end) {
			return nil, "", fmt.Errorf("%s does not accept connections: %w; it said %s", c.Name, err, child.Output())
		}
	}
}
