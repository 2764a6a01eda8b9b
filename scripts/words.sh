#!/usr/bin/env bash
# Prints how often the comments of a tree's Go code use some words, per 10,000
# words of comments. The second figure is that of eight Go projects that read well
# (x/sync, redislock, connect-go, failsafe-go, river, go-grpc-middleware,
# rueidislock, etcd's concurrency).
#
#     scripts/words.sh [FOLDER]
#
# words_test.go keeps words out. This shows the habits that no list can forbid.
set -euo pipefail

cd "${1:-$(dirname "$0")/..}"
text=$(mktemp)
trap 'rm -f "$text"' EXIT
find . -name .\?\* -prune -o -name '*.go' ! -name '*.pb.go' -print0 |
  xargs -0 grep -hE '^[[:space:]]*//' | sed -E 's/^[[:space:]]*\/\/+//' | tr '\n' ' ' >"$text"
words=$(wc -w <"$text")

rate() { # NAME PATTERN OTHERS
  local found
  found=$({ grep -oiwE "$2" "$text" || true; } | wc -l)
  awk -v n="$1" -v f="$found" -v w="$words" -v o="$3" 'BEGIN { printf "%-24s %6.1f %6s\n", n, f * 10000 / w, o }'
}

printf '%s words of comments\n\n%-24s %6s %6s\n' "$words" "per 10,000" here others
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
