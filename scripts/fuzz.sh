#!/usr/bin/env bash
# Runs every fuzz target of the repository, one after the other, as `go test`
# takes one target at a time.
#
# usage: scripts/fuzz.sh TIME
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:?usage: scripts/fuzz.sh TIME, for instance 30s}

targets=$(find . -path './.*' -prune -o -name '*_test.go' -print0 |
	xargs -0 grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sort)
if [[ -z $targets ]]; then
	echo "no fuzz target found" >&2
	exit 1
fi

while IFS=: read -r file declaration; do
	name=${declaration#func }
	folder=$(dirname "$file")
	echo "== $folder: $name for $time"
	(cd "$folder" && go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" .)
done <<<"$targets"
