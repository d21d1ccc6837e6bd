package bed

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/world"
)

// place says which processors a process runs on.
type place struct {
	clients  []int
	services map[string][]int // by name
}

// newPlace divides the processors of the machine. The clients have the last one. Hosts
// have the others, each the next of them, and that of the clients as well if they
// need it; services without a host have all others, and if they mostly wait and are
// several processes, all: what their messages take is too much for one processor. Six
// processes of wisp/isolation-live use 0.9 to 1.1 of one; on one, who did nothing wrong lost half
// of its throughput.
func newPlace(p *plan, cpus []int) (place, error) {
	last := len(cpus) - 1
	at := place{clients: cpus[last:], services: map[string][]int{}}
	others := cpus[:max(last, 1)]
	hosts, next := map[string][]int{}, 0
	free := others
	if p.waits() && !p.alone() {
		free = cpus
	}
	for _, h := range p.Hosts {
		n := h.Processors
		switch {
		case n > len(cpus):
			return at, fmt.Errorf("bed: host %q has %d processors, and this machine %d", h.Name, n, len(cpus))
		case n > len(others):
			hosts[h.Name] = cpus[:n]
		default:
			for range n {
				hosts[h.Name] = append(hosts[h.Name], others[next%len(others)])
				next++
			}
		}
	}
	for i := range p.Services {
		s := &p.Services[i]
		if at.services[s.Name] = hosts[s.Host]; s.Host == "" {
			at.services[s.Name] = free
		}
	}
	return at, nil
}

// crowded says that hosts share a processor that the world gives to each of them, ""
// if they do not: then what is measured is not what the world describes.
func (at place) crowded(p *plan) string {
	host := map[int]string{}
	for i := range p.Services {
		s := &p.Services[i]
		if !computes(s) {
			continue
		}
		for _, cpu := range at.services[s.Name] {
			if other, taken := host[cpu]; taken && other != s.Host {
				return fmt.Sprintf("hosts %q and %q share a processor of this machine, which has too few of them", other, s.Host)
			}
			host[cpu] = s.Host
		}
	}
	return ""
}

// threads is the GOMAXPROCS of a service on n processors: what it says, or one more than
// there are where handlers burn them, so that whoever reads connections gets a slice, as
// users are told.
func threads(s *world.Service, n int) int {
	switch {
	case s.Threads > 0:
		return s.Threads
	case computes(s):
		return n + 1
	}
	return n
}
