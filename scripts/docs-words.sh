#!/usr/bin/env bash
# Prints how many words each page under docs/ has, the longest first, and their sum.
# The marks of Markdown are no words. What nobody wrote by hand doesn't count: blocks of output (fenced, without a language or
# as text), and tables that a program wrote, between a comment that says so and <!-- end -->.
# Translations say the same once more, and don't count.
#
# usage: scripts/docs-words.sh [MOST]   fails if the sum is above MOST
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016 # a program of awk
find docs -name '*.md' ! -name '*.zh-CN.md' -print0 | sort -z | xargs -0 awk -v most="${1:-0}" '
	FNR == 1 { fenced = quoted = generated = 0; words[FILENAME] += 0 }
	/^[[:space:]]*```/ { fenced = !fenced; quoted = fenced && /```(text)?[[:space:]]*$/; next }
	/^<!-- (bench .*|generated|written by .*|table: .*) -->$/ { generated = 1 }
	!quoted && !generated {
		for (i = 1; i <= NF; i++) if ($i !~ /^[-|:#*]+$/) { words[FILENAME]++; sum++ }
	}
	/^<!-- end( of the table)? -->$/ { generated = 0 }
	END {
		for (page in words) printf "%7d %s\n", words[page], page | "sort -k1,1nr -k2"
		close("sort -k1,1nr -k2")
		printf "%7d in all\n", sum
		if (most && sum > most) { print "more than " most | "cat >&2"; exit 1 }
	}'
