#!/usr/bin/env bash
# Installs the servers that the tests run: Redis (or Valkey), MariaDB, PostgreSQL
# and PgBouncer, through the package manager of the system. Only what is missing is
# installed, and nothing is said or done if nothing is.
#
# Tests start private copies of the servers. The system services that packages
# bring along are therefore neither started nor enabled, and services that exist
# already are not touched.
#
# shellcheck disable=SC2086 # lists of names are strings: macOS has bash 3.2
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "$(dirname "$0")/packages.sh"

# found looks for a binary where the tests look for it.
found() {
	local name=$1 path
	command -v "$name" >/dev/null && return
	for path in /usr/sbin/"$name" /usr/local/sbin/"$name" /usr/libexec/"$name" \
		/usr/lib/postgresql/*/bin/"$name" /usr/pgsql-*/bin/"$name" \
		/opt/homebrew/opt/*/bin/"$name" /usr/local/opt/*/bin/"$name"; do
		[[ -x $path ]] && return
	done
	return 1
}

# The clients of the SQL servers are used by the tests of the test servers.
has_redis() { found redis-server || found valkey-server; }
has_mariadb() { found mariadbd && found mariadb-install-db && found mariadb; }
has_postgres() { found postgres && found initdb && found psql; }
has_pgbouncer() { found pgbouncer; }

missing() {
	local server
	for server in redis mariadb postgres pgbouncer; do
		"has_$server" || echo "$server"
	done
}

# packages prints what a package manager calls the given servers.
packages() {
	local manager=$1 server
	shift
	for server in "$@"; do
		case $manager-$server in
		apt-redis) echo redis-server ;;
		apt-mariadb | dnf-mariadb) echo mariadb-server ;;
		apt-postgres) echo postgresql ;;
		dnf-redis) dnf -q info redis >/dev/null 2>&1 && echo redis || echo valkey ;;
		dnf-postgres) echo postgresql-server ;;
		apk-redis | brew-redis) echo redis ;;
		apk-mariadb) echo mariadb mariadb-client ;;
		apk-postgres | pacman-postgres) echo postgresql ;;
		pacman-redis) echo valkey ;;
		pacman-mariadb | brew-mariadb) echo mariadb ;;
		brew-postgres) echo postgresql@17 ;;
		*-pgbouncer) echo pgbouncer ;;
		esac
	done
}

# forbid_start keeps packages from starting their service while they are
# installed. A policy that somebody else has set stays in force.
forbid_start() {
	local policy=/usr/sbin/policy-rc.d
	[[ -e $policy ]] && return
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
	as_root chmod 755 "$policy"
}

# disable_services keeps the services of the packages, all new, from running now
# and at the next boot.
disable_services() {
	command -v systemctl >/dev/null || return 0
	local package unit
	for package in "$@"; do
		unit=${package/mariadb-server/mariadb} # the others are named as their package
		as_root systemctl disable "$unit" >/dev/null 2>&1 ||
			say "could not disable $unit; it may start with the system"
		if [[ -d /run/systemd/system ]]; then # systemd runs
			as_root systemctl stop "$unit" || say "could not stop $unit"
		fi
	done
}

main() {
	local servers names
	servers=$(missing)
	[[ -n $servers ]] || return 0

	find_manager "$(echo $servers)"
	names=$(packages "$manager" $servers)
	say "missing:" $servers "- installing" $names "through $manager"
	[[ $manager != apt ]] || forbid_start
	"${manager}_install" $names
	[[ $manager != apt ]] || disable_services $names

	servers=$(missing)
	[[ -z $servers ]] || die "installed, but still not found:" $servers
	say "done"
}

main
