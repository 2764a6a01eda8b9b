#!/usr/bin/env bash
# Runs govulncheck in every module. Vulnerabilities that the code can reach, and a
# database that cannot be asked, are failures; with --if-reachable the latter is
# a skip that says so. GOVULNDB names another database than vuln.go.dev.
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

# unasked: what govulncheck says when it cannot ask the database.
unasked='fetching vulnerabilities|no such host|dial tcp|connection refused|i/o timeout|TLS handshake timeout'
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for module in "$@"; do
	echo "== $module: govulncheck"
	status=0
	(cd "$module" && "$tool" -db "$database" -test ./...) >"$log" 2>&1 || status=$?
	cat "$log"
	[[ $status -eq 0 ]] && continue
	# 3 is a finding. Others are failures of the tool itself.
	if [[ $status -ne 3 ]] && grep -qE "$unasked" "$log"; then
		echo "*** NOT CHECKED for vulnerabilities: $database cannot be reached ***" >&2
		[[ -n $optional ]] && exit 0
	fi
	exit "$status"
done
