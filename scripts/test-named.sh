#!/usr/bin/env bash
# Runs the tests that a file names, and no others. A name that is no test fails.
#
# usage: scripts/test-named.sh FILE [FLAG OF go test ...]
set -euo pipefail
cd "$(dirname "$0")/.."

file=${1:?usage: scripts/test-named.sh FILE [flags of go test]}
shift

fail() {
	echo "$file: $1" >&2
	exit 1
}

# go_files lists the files with such a name, each ended by a NUL.
go_files() { find . -path './.*' -prune -o -name "$1" -print0; }

# either makes an expression of lines: (a|b).
either() { printf '(%s)' "$(sort -u | paste -sd '|' -)"; }

# Names alone do not say where the tests are: those of a package have the same
# form as those of another, and some are in several.
names=$(grep -oE '\bTest[A-Z][A-Za-z0-9]*' "$file" | sort -u) || fail "names no test"
found=$(go_files '*_test.go' | xargs -0 grep -oE "^func $(either <<<"$names")\(" | sed 's/func //; s/($//') || true # file:test
tests=$(cut -d: -f2 <<<"$found")
run="^$(either <<<"$tests")\$"

# The other names are methods of a suite, subtests of each test that runs it.
while read -r name; do
	suites=$(go_files '*.go' | xargs -0 grep -lE "^func \([^)]+\) $name\(t \*testing\.T\)" |
		sed -E 's#.*/([^/]+)/[^/]+$#\1#' | either) || fail "there is no $name"
	# shellcheck disable=SC2016 # a program of awk
	callers=$(go_files '*_test.go' | xargs -0 awk -v call="${suites}[.]Run[(]" '
		/^func / { test = $2; sub(/\(.*/, "", test) }
		test ~ /^Test/ && $0 ~ call { print FILENAME ":" test }')
	[[ -n $callers ]] || fail "no test runs the suite of $name"
	found+=$'\n'$callers
	run+="|^$(cut -d: -f2 <<<"$callers" | either)\$/^$name\$"
done < <(grep -vxF "$tests" <<<"$names")

# shellcheck disable=SC2046 # folders are several words
exec go test -race -run "$run" "$@" $(sed -E '/./!d; s#/[^/]*$##' <<<"$found" | sort -u)
