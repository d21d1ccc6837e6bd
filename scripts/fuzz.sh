#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another.
# usage: scripts/fuzz.sh [time for each target, default 10s]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

found=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	# Prints the targets' names, then a line that starts with "ok".
	listed=$(go test -list '^Fuzz' "$package")
	for target in $(grep '^Fuzz' <<<"$listed" || true); do
		found=$((found + 1))
		echo "fuzz: $package $target for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2 "$package"
	done
done
echo "fuzz: $found targets, nothing found"
