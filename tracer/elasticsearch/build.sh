#!/usr/bin/env bash
# Builds the plugin for one version of Elasticsearch, with a JDK alone: the directory spillgate, and spillgate.zip for
# elasticsearch-plugin install. Most of its sources are those of tracer/opensearch, with the names that Elasticsearch has for the same things;
# those in src take the place of the ones of the same name.
# usage: build.sh directory-of-Elasticsearch directory for what is built [javac, default the one on PATH [directory of the
# task file, default /run/spillgate]]. The plugin may write to that directory alone; another one is told by -Dspillgate.tasks too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
server=${1:?usage: build.sh directory-of-Elasticsearch directory [javac]}
out=${2:?usage: build.sh directory-of-Elasticsearch directory [javac]}
javac=${3:-javac}
tasks=${4:-/run/spillgate}
version=$(basename "$server"/lib/elasticsearch-core-*.jar .jar)
version=${version#elasticsearch-core-}
mkdir -p "$out/src" "$out/classes" "$out/spillgate"
for file in "$here"/../opensearch/src/spillgate/opensearch/*.java; do
	[[ $file == */AnswerCache.java ]] && continue # Elasticsearch shows its cache of answers to no plugin
	sed -f "$here/names.sed" "$file" >"$out/src/$(basename "$file")"
done
cp "$here"/src/spillgate/elasticsearch/*.java "$out/src"
"$javac" --release 17 -Xlint:all,-processing,-classfile,-path,-deprecation,-try -Werror -cp "$server/lib/*" -d "$out/classes" "$out"/src/*.java $(find "$here/../java/src" -name '*.java')
jar="$(dirname "$(readlink -f "$(command -v "$javac")")")/jar"
"$jar" --create --file "$out/spillgate/spillgate-elasticsearch.jar" -C "$out/classes" .
# Java 17 to 23 ask the first file for rights, later ones the second.
cat >"$out/spillgate/plugin-security.policy" <<END
grant {
  permission java.io.FilePermission "$tasks/-", "read,write,delete";
  permission java.lang.RuntimePermission "accessUserInformation";
  // the task file names the process and the system's boot
  permission java.io.FilePermission "/proc/-", "read,readlink";
};
END
cat >"$out/spillgate/entitlement-policy.yaml" <<END
ALL-UNNAMED:
  - manage_threads
  - files:
    - path: "$tasks"
      mode: read_write
    - path: "/proc"
      mode: read
END
cat >"$out/spillgate/plugin-descriptor.properties" <<END
name=spillgate
description=tells spillgate guard what requests hold and wait for, and cancels the one that it names
version=$version
elasticsearch.version=$version
java.version=17
classname=spillgate.elasticsearch.SpillgatePlugin
END
"$jar" --create --no-manifest --file "$out/spillgate.zip" -C "$out/spillgate" .
