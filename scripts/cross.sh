#!/usr/bin/env bash
# Checks that the module builds on every system and every architecture it promises to
# run on. Vetting type-checks all packages with their tests and compiles what they
# import, without optimizing it, because nothing runs it: that takes two thirds of the time.
# darwin/arm64 has no file that neither of the others has.
# usage: scripts/cross.sh
set -euo pipefail
cd "$(dirname "$0")/.."

echo "cross: build $(go env GOHOSTOS)/$(go env GOHOSTARCH)"
go build ./... # vetted by make vet

for platform in linux/arm64 darwin/amd64; do
	echo "cross: vet $platform"
	GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go vet -gcflags='all=-N -l -dwarf=false' ./...
done
