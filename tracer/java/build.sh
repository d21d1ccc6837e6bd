#!/usr/bin/env bash
# Builds spillgate-tracer.jar, for Java 17 and later, with the JDK alone.
# usage: build.sh directory for what is built [javac, default the one on PATH]
set -euo pipefail
source=$(dirname "$0")/src
out=${1:?usage: build.sh directory [javac]}
javac=${2:-javac}
mkdir -p "$out/classes"
"$javac" --release 17 -Xlint:all -Werror -d "$out/classes" $(find "$source" -name '*.java')
printf 'Automatic-Module-Name: spillgate.tracer\n' >"$out/manifest"
jar="$(dirname "$(readlink -f "$(command -v "$javac")")")/jar"
"$jar" --create --file "$out/spillgate-tracer.jar" --manifest "$out/manifest" -C "$out/classes" .
