#!/usr/bin/env bash
# Fails if a command that generates code changes any generated file. The files
# are compared with what they were before, not with the last commit, so that it
# also works on work in progress.
#
# usage: scripts/check-generated.sh COMMAND...
set -euo pipefail
cd "$(dirname "$0")/.."

# The marker is the one that the go command defines for generated code. Folders
# whose names begin with a dot are not ours.
snapshot() {
	{ find . -path './.*' -prune -o -name '*.go' -exec grep -lE '^// Code generated .* DO NOT EDIT\.$' {} + || true; } |
		sort | while read -r file; do cksum "$file"; done
}

before=$(snapshot)
if [[ -z $before ]]; then
	echo "there is no generated code: this check does not work" >&2
	exit 1
fi
"$@"
after=$(snapshot)

if [[ $before != "$after" ]]; then
	echo "generated code is not up to date; it has been written, review and commit it:" >&2
	diff <(echo "$before") <(echo "$after") >&2 || true
	exit 1
fi
