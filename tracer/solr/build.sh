#!/usr/bin/env bash
# Builds spillgate-solr.jar, with the tracer in it, for Solr 9.9 and Java 17, with the JDK alone.
# usage: build.sh directory-of-Solr's-jars directory for what is built [javac, default the one on PATH]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
solr=${1:?usage: build.sh directory-of-Solr\'s-jars directory [javac]}
out=${2:?usage: build.sh directory-of-Solr\'s-jars directory [javac]}
javac=${3:-javac}
mkdir -p "$out/classes"
"$javac" --release 17 -Xlint:all,-processing,-classfile,-path -Werror -cp "$solr/*" -d "$out/classes" $(find "$here/src" "$here/../java/src" -name '*.java')
printf 'Automatic-Module-Name: spillgate.solr\n' >"$out/manifest"
jar="$(dirname "$(readlink -f "$(command -v "$javac")")")/jar"
"$jar" --create --file "$out/spillgate-solr.jar" --manifest "$out/manifest" -C "$out/classes" .
