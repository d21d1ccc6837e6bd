#!/usr/bin/env bash
# Installs the programs that tests drive: a browser for the demo's page, three
# unmodified servers for the proxy to stand in front of, and compilers for the
# tracers of C, C++ and Java and the web application of lab/chains, two databases
# for the guards and what loads them, etcd for the proxy, a broker and clients
# of MQTT for ours, PHP in and behind Apache for its guards, and promtool for the alert rules.
# usage: scripts/deps.sh [package...], default all
#
# Idempotent: asks dpkg first and touches the network only when something is
# missing. On Debian and its relatives it installs; elsewhere it only says what
# to install, and succeeds, because tests skip what they cannot run unless
# CI=true.
set -euo pipefail

# A race build needs a C compiler; the rest are what the tests start.
packages=(gcc g++ libc6-dev cmake pkg-config chromium nginx apache2 tomcat10 default-jdk-headless
	postgresql mariadb-server sysbench etcd-server apache2-dev libapache2-mod-php php-fpm mosquitto mosquitto-clients python3-paho-mqtt prometheus)
if [ $# -gt 0 ]; then
	packages=("$@")
fi

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	missing=()
	command -v cc >/dev/null || missing+=("a C compiler")
	command -v c++ >/dev/null || missing+=("a C++ compiler")
	command -v cmake >/dev/null || missing+=("CMake")
	command -v pkg-config >/dev/null || missing+=("pkg-config")
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=("Chromium")
	command -v nginx >/dev/null || missing+=("nginx")
	command -v apache2 >/dev/null || command -v httpd >/dev/null || missing+=("Apache httpd 2.4")
	[ -d /usr/share/tomcat10 ] || missing+=("Tomcat 10 in /usr/share/tomcat10")
	command -v javac >/dev/null || missing+=("a JDK, 17 or later")
	command -v initdb >/dev/null || missing+=("PostgreSQL 13 or later")
	command -v mariadbd >/dev/null || missing+=("MariaDB 10.6 or later")
	command -v etcd >/dev/null || missing+=("etcd 3.4 or later")
	command -v sysbench >/dev/null || missing+=("sysbench")
	command -v apxs2 >/dev/null || command -v apxs >/dev/null || missing+=("apxs of Apache httpd 2.4, its PHP module and php-fpm")
	command -v mosquitto >/dev/null || missing+=("mosquitto")
	command -v mosquitto_sub >/dev/null || missing+=("the clients of mosquitto")
	command -v promtool >/dev/null || missing+=("promtool of Prometheus 2.42 or later")
	if [ "${#missing[@]}" -gt 0 ]; then
		echo "deps: not a Debian machine, so nothing was installed. Tests that need these will skip:"
		printf '  %s\n' "${missing[@]}"
	fi
	exit 0
fi

missing=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
	echo "deps: all present: ${packages[*]}"
	exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: missing ${missing[*]}; run as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
fi

# Debian starts a server as soon as it is installed. The tests start their own,
# on free ports, so nobody's port 80 should be taken by running the tests.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap '"${as_root[@]}" rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 755 "$policy"
fi

echo "deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -q --no-install-recommends "${missing[@]}"
