#!/usr/bin/env bash
# Builds the plugin for one version of OpenSearch, with the JDK of that version alone: the directory spillgate, and
# spillgate.zip for opensearch-plugin install.
# usage: build.sh directory-of-OpenSearch directory for what is built [javac, default the one on PATH [directory of the
# task file, default /run/spillgate]]. The plugin may write to that directory alone; another one is told by -Dspillgate.tasks too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
server=${1:?usage: build.sh directory-of-OpenSearch directory [javac]}
out=${2:?usage: build.sh directory-of-OpenSearch directory [javac]}
javac=${3:-javac}
tasks=${4:-/run/spillgate}
version=$(basename "$server"/lib/opensearch-core-*.jar .jar)
version=${version#opensearch-core-}
mkdir -p "$out/classes" "$out/spillgate"
"$javac" --release 21 -Xlint:all,-processing,-classfile,-path,-deprecation,-try -Werror -cp "$server/lib/*" -d "$out/classes" $(find "$here/src" "$here/../java/src" -name '*.java')
jar="$(dirname "$(readlink -f "$(command -v "$javac")")")/jar"
"$jar" --create --file "$out/spillgate/spillgate-opensearch.jar" -C "$out/classes" .
cat >"$out/spillgate/plugin-security.policy" <<END
grant {
  permission java.io.FilePermission "$tasks/-", "read,write,delete";
  // the task file names the process and the system's boot
  permission java.io.FilePermission "/proc/-", "read,readlink";
};
END
cat >"$out/spillgate/plugin-descriptor.properties" <<END
name=spillgate
description=tells spillgate guard what requests hold and wait for, and cancels the one that it names
version=$version
opensearch.version=$version
java.version=21
classname=spillgate.opensearch.SpillgatePlugin
END
"$jar" --create --no-manifest --file "$out/spillgate.zip" -C "$out/spillgate" .
