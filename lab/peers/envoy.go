package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/front"
)

//go:embed envoy.yaml.tmpl
var envoyConfig string

// envoys returns Envoy as it is and with two of its filters. program is its path; the
// children of a run, which start none, need no path.
func envoys(program string) (all []bed.Peer) {
	for _, e := range []struct{ name, filter string }{{"envoy", "none"}, {"envoy-adaptive", "adaptive_concurrency"}, {"envoy-admission", "admission_control"}} {
		all = append(all, bed.Peer{Name: e.name, Front: func(_ context.Context, r *bed.Role) (proc.Spec, error) {
			text, err := configureEnvoy(e.filter, r)
			if err != nil {
				return proc.Spec{}, err
			}
			// One worker: proxy and server share a core.
			return envoySpec(program, r.Dir), os.WriteFile(filepath.Join(r.Dir, "envoy.yaml"), text, 0o600)
		}})
	}
	return all
}

// envoyFronts returns Envoy with adaptive concurrency for front/proxies and front/stock, in
// front of a server with an objective; none without a program.
func envoyFronts(program string, objective time.Duration) []front.Contender {
	if program == "" {
		return nil
	}
	return []front.Contender{{Name: "envoy-adaptive", Spec: func(dir, listen, upstream string) (proc.Spec, error) {
		r := &bed.Role{Listen: listen, Upstream: upstream, Dir: dir, Service: &world.Service{Objective: objective}}
		text, err := configureEnvoy("adaptive_concurrency", r)
		if err != nil {
			return proc.Spec{}, err
		}
		return envoySpec(program, dir), os.WriteFile(filepath.Join(dir, "envoy.yaml"), text, 0o600)
	}}}
}

// envoySpec is the process of an Envoy with one worker, whose configuration is in dir.
func envoySpec(program, dir string) proc.Spec {
	return proc.Spec{Path: program, Args: []string{"-c", filepath.Join(dir, "envoy.yaml"), "--concurrency", "1", "--log-level", "warning", "--disable-hot-restart"}}
}

// configureEnvoy returns Envoy's configuration with a filter in front of a replica.
func configureEnvoy(filter string, r *bed.Role) ([]byte, error) {
	values := map[string]any{"Filter": filter}
	for name, addr := range map[string]string{"Listen": r.Listen, "Up": r.Upstream} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		values[name] = fmt.Sprintf("{address: %s, port_value: %s}", host, port)
	}
	// A little less than the clients' deadline: they leave without a word, and from
	// that neither filter learns how long it took.
	values["Timeout"] = strings.TrimSuffix(fmt.Sprintf("%.3f", 0.9*r.Service.Objective.Seconds()), "0")
	var text bytes.Buffer
	err := template.Must(template.New("").Parse(envoyConfig)).Execute(&text, values)
	return text.Bytes(), err
}
