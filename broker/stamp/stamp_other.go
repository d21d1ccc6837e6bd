//go:build !linux || !(amd64 || arm64)

package stamp

import "net"

func listen(l net.Listener) net.Listener { return l }
