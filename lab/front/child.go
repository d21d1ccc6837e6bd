package front

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/proxy"
)

// role tells a child what to do.
const role = proc.Role[order]("SPILLGATE_FRONT")

// order is for one child: it is a proxy, an attacker, or a server.
type order struct {
	Lean   bool        `json:",omitempty"`
	Proxy  *proxyOrder `json:",omitempty"`
	Attack *Attack     `json:",omitempty"`
}

// proxyOrder describes a proxy in front of one server.
type proxyOrder struct {
	Upstream  string
	Objective time.Duration
	Slots     int // 0: learned
	Mode      live.Mode
	Files     uint64 // that it may open; 0: as many as the system allows
	Cert, Key string // PEM files; empty: no TLS
}

// Child plays a child's part and ends the process, if it is a child of an experiment of
// this package, and returns otherwise. It is called first in main.
func Child() { role.Play("front", order.obey) }

func (o order) obey() error {
	switch {
	case o.Lean:
		return serveLean()
	case o.Proxy != nil:
		return o.Proxy.serve()
	}
	if err := o.Attack.begin(context.Background()); err != nil {
		return err
	}
	fmt.Println("listening on nothing")
	select {} // until the parent has seen enough
}

// serve runs the proxy until the process is killed.
func (o *proxyOrder) serve() error {
	if err := limitFiles(o.Files); err != nil {
		return err
	}
	p, err := proxy.New(proxy.Config{
		Objective: o.Objective, Mode: o.Mode,
		Listen:    []proxy.Listener{{Address: "127.0.0.1:0", Cert: o.Cert, Key: o.Key}},
		Upstreams: []proxy.Upstream{{URL: "http://" + o.Upstream}},
		Slots:     proxy.Slots{Min: o.Slots, Max: o.Slots},
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	if err := p.Listen(); err != nil {
		return err
	}
	addrs, _ := p.Addrs()
	fmt.Printf("listening on %v\n", addrs[0])
	return p.Run(context.Background())
}
