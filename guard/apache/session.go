package apache

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// session describes a task of the file.
func (s *Source) session(t *culprit.Task, o *taskfile.Origin) track.Session {
	name := s.file.Name(t.Kind)
	what := statement.Statement{Fingerprint: t.Kind, Text: name, Class: classOf(name)}
	method, path, host := route(what.Text)
	state, asked := "request", method+" "+path
	if path == "" {
		state, asked = strings.Trim(what.Text, "()"), ""
	}
	return track.Session{Route: asked, Process: int64(o.PID), Application: path, Database: host, Client: client(o.Key), Statement: what, State: state, Nameless: name == ""}
}

// route reads the name of a kind of requests, "GET /path host", of which the host may be missing.
// Path is empty of what is no request.
func route(kind string) (method, path, host string) {
	method, rest, ok := strings.Cut(kind, " ")
	if !ok || strings.HasPrefix(kind, "(") {
		return "", "", ""
	}
	path, host, _ = strings.Cut(rest, " ")
	return method, path, host
}

// classOf returns the sort of work of a kind of requests: what reads, by its method, and what may
// write.
func classOf(kind string) statement.Class {
	switch method, path, _ := route(kind); {
	case path == "":
		return statement.Other
	case method == "GET", method == "HEAD", method == "OPTIONS":
		return statement.Select
	}
	return statement.Write
}

// client unpacks what the module knows of a client: its port, and its address if that is IPv4.
func client(key uint64) string {
	port := strconv.FormatUint(key&0xffff, 10)
	if address := uint32(key >> 16); address != 0 {
		return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}).String() + ":" + port
	}
	return ":" + port
}
