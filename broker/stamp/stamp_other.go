//go:build !linux || !(amd64 || arm64)

package stamp

import "net"

func listen(l net.Listener, _ bool) net.Listener { return l }
