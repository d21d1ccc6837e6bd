#!/usr/bin/env bash
# Runs every experiment in its quick form and fails if one misses its bars,
# after all have run.
# usage: scripts/lab.sh [more flags for "spillgate lab run"]
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
go build -o bin/spillgate ./cmd/spillgate

failed=()
# An experiment's name is the first word of its line and contains a slash.
for name in $(bin/spillgate lab list | awk '$1 ~ "^[a-z0-9-]+/[a-z0-9-]+$" {print $1}'); do
	bin/spillgate lab run "$name" --quick "$@" || failed+=("$name")
done
if [ "${#failed[@]}" -gt 0 ]; then
	echo "lab: ${#failed[@]} fell short: ${failed[*]}" >&2
	exit 1
fi
