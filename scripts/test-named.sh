#!/usr/bin/env bash
# Runs the tests that a document names, and no others.
#
# usage: scripts/test-named.sh DOCUMENT [FLAG OF go test ...]
set -euo pipefail
cd "$(dirname "$0")/.."

document=${1:?usage: scripts/test-named.sh docs/page.md [flags of go test]}
shift

# Names alone do not say where the tests are: those of a package have the same
# form as those of another, and some are in several.
names=$(grep -oE '\bTest[A-Z][A-Za-z0-9]*' "$document" | sort -u | paste -sd '|')
folders=$(find . -path './.*' -prune -o -name '*_test.go' -print0 |
	xargs -0 grep -lE "^func ($names)\(" | xargs -n1 dirname | sort -u)
if [[ -z $names || -z $folders ]]; then
	echo "no test of $document was found" >&2
	exit 1
fi
# shellcheck disable=SC2086 # folders are several words
exec go test -race -run "^($names)\$" "$@" $folders
