#!/usr/bin/env bash
# Runs govulncheck in every module, with the toolchain that go.work names or a
# later one, as that brings the standard library. Vulnerabilities that the code
# can reach, and a database or a toolchain that cannot be had, are failures; with
# --if-reachable the latter is a skip that says so. GOVULNDB names another
# database than vuln.go.dev.
#
# usage: scripts/vuln.sh [--if-reachable] GOVULNCHECK MODULE...
set -euo pipefail
cd "$(dirname "$0")/.."

optional=
if [[ $1 == --if-reachable ]]; then
	optional=1
	shift
fi
tool=$1
shift
database=${GOVULNDB:-https://vuln.go.dev}

# unchecked ends the script without a result.
unchecked() {
	echo "*** NOT CHECKED for vulnerabilities: $1 ***" >&2
	[[ -n $optional ]] && exit 0
	exit "$2"
}

export GOTOOLCHAIN=auto
go version || unchecked "the toolchain of go.work cannot be had" 1

# unreachable: what govulncheck says when it cannot reach the database.
unreachable='fetching vulnerabilities|no such host|dial tcp|connection refused|i/o timeout|TLS handshake timeout'
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for module in "$@"; do
	echo "== $module: govulncheck"
	status=0
	(
		cd "$module"
		[[ $module != tools ]] || export GOWORK=off
		"$tool" -db "$database" -test ./...
	) >"$log" 2>&1 || status=$?
	cat "$log"
	[[ $status -eq 0 ]] && continue
	# 3 is a finding. Others are failures of the tool itself.
	if [[ $status -ne 3 ]] && grep -qE "$unreachable" "$log"; then
		unchecked "$database cannot be reached" "$status"
	fi
	exit "$status"
done
