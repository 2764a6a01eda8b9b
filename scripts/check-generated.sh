#!/usr/bin/env bash
# Fails if a command that generates code changes any generated file. The files
# are compared with what they were before, not with the last commit, so that it
# also works on work in progress.
#
# usage: scripts/check-generated.sh COMMAND...
set -euo pipefail
cd "$(dirname "$0")/.."

snapshot() {
	# The marker is the one that the go command defines for generated code.
	{ grep -rlE --include='*.go' --exclude-dir='.*' '^// Code generated .* DO NOT EDIT\.$' . || true; } |
		sort | while read -r file; do cksum "$file"; done
}

before=$(snapshot)
"$@"
after=$(snapshot)

if [[ $before != "$after" ]]; then
	echo "generated code is not up to date; it has been written, review and commit it:" >&2
	diff <(echo "$before") <(echo "$after") >&2 || true
	exit 1
fi
