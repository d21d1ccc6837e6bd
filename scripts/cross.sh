#!/usr/bin/env bash
# Builds the module for every platform it promises to run on, and vets it for every
# system and every architecture. Vetting type-checks the tests too, which a build
# leaves out.
# usage: scripts/cross.sh
set -euo pipefail
cd "$(dirname "$0")/.."
native=$(go env GOHOSTOS)/$(go env GOHOSTARCH)

for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	export GOOS=${platform%/*} GOARCH=${platform#*/}
	if [ "$platform" = "$native" ]; then
		echo "cross: build $platform"
		go build ./...
		continue # vetted by make vet
	fi
	echo "cross: build $platform"
	CGO_ENABLED=0 go build ./...
	if [ "$platform" != darwin/arm64 ]; then # both halves of it are vetted by then
		echo "cross: vet $platform"
		CGO_ENABLED=0 go vet ./...
	fi
done
