#!/usr/bin/env bash
# Prints how often the comments of the Go code use some words, per 10,000 words of
# comments, and how long the README is: in a commit, now, and in eight Go projects
# that read well (x/sync, redislock, connect-go, failsafe-go, river,
# go-grpc-middleware, rueidislock, etcd's concurrency).
#
#     scripts/words.sh [COMMIT]
#
# The commit is the last with the old words unless another is named. words_test.go
# keeps words out. This shows the habits that no list can forbid.
set -euo pipefail

cd "$(dirname "$0")/.."
commit=${1:-3948b26}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
mkdir "$old/tree"
git archive "$commit" | tar -x -C "$old/tree"

comments() { # FOLDER
  find "$1" -name .\?\* -prune -o -name '*.go' ! -name '*.pb.go' -print0 |
    xargs -0 grep -hE '^[[:space:]]*//' | sed -E 's/^[[:space:]]*\/\/+//' | tr '\n' ' '
}
comments "$old/tree" >"$old/before"
comments . >"$old/now"

row() { printf '%-24s %10s %10s %10s\n' "$@"; }

rate() { # NAME PATTERN OTHERS
  local rates=() text found
  for text in before now; do
    found=$({ grep -oiwE "$2" "$old/$text" || true; } | wc -l)
    rates+=("$(awk -v f="$found" -v w="$(wc -w <"$old/$text")" 'BEGIN { printf "%.1f", f * 10000 / w }')")
  done
  row "$1" "${rates[@]}" "$3"
}

row '' "$commit" now others
row "README: lines" "$(wc -l <"$old/tree/README.md")" "$(wc -l <README.md)" ''
row "README: words" "$(wc -w <"$old/tree/README.md")" "$(wc -w <README.md)" ''
row "words of comments" "$(wc -w <"$old/before")" "$(wc -w <"$old/now")" 102818
printf '\nper 10,000 words of comments:\n'
rate "those that, those who" "those (that|who)" 0
rate "tell, told" "tells?|told" 0.6
rate "ask" "ask(s|ed|ing)?" 1.1
rate "text" "texts?" 1.6
rate "door" "doors?" 0.1
rate "of its own" "of its own" 0.1
rate "is over" "is over" 0
rate "any more" "any more" 0.2
rate "beside" "beside" 0
rate "in place of" "in place of" 0
rate "whoever" "whoever" 0
rate "gives back" "gives? back|given back" 0
rate "takes in" "takes in" 0
rate "instead" "instead" 14.3
rate "for example, such as" "for example|such as|e\.g\." 9.8
rate "contractions" "(is|does|do|can|are|was|did|has|have|wo|would|should)n't|(it|that|there|who|what)'s|they're|we're|don't|can't|won't" 44
