#!/bin/sh
# Builds everything and tests the packages that users import with the lowest Go version that
# go.mod allows; the lowest versions of libraries, gRPC among them, are those that go.mod
# names, with which all tests run. Usage: lowest.sh. Downloads that Go if it is not there.
set -eu
cd "$(dirname "$0")/.."
version=$(awk '$1 == "go" {print $2}' go.mod)
export GOTOOLCHAIN="go$version"
go version
go build ./...
go test -timeout 5m . ./grpcgate ./httpgate ./fastrpc ./classify ./telemetry ./tracer
