#!/usr/bin/env bash
# Installs a JDK and Maven, which the interop tests need, through the package
# manager of the system. Only what is missing is installed, and nothing is said
# or done if nothing is.
#
#   scripts/install-java.sh          install what is missing
#   scripts/install-java.sh --check  only say, by the exit code, whether nothing is
#
# shellcheck disable=SC2086 # a list of names is a string
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "$(dirname "$0")/packages.sh"

MIN_JAVA=17

# The newest release with long support that the system has is taken.
RELEASES=(25 21 17)

# present asks Maven which JDK it runs on: whatever JAVA_HOME and PATH say, that
# is the one that builds.
present() {
	command -v mvn >/dev/null || return
	local says version runtime
	says=$(mvn -B --version 2>/dev/null) || return
	version=$(sed -n 's/^Java version: \([0-9]*\).*/\1/p' <<<"$says")
	runtime=$(sed -n 's/.*runtime: //p' <<<"$says")
	((${version:-0} >= MIN_JAVA)) && [[ -x $runtime/bin/javac ]]
}

# first_that prints the first name of a JDK that a command accepts. RELEASE in the
# pattern, after "--", stands for the number.
first_that() {
	local command=() release
	while [[ $1 != -- ]]; do
		command+=("$1")
		shift
	done
	local pattern=$2
	for release in "${RELEASES[@]}"; do
		if "${command[@]}" "${pattern/RELEASE/$release}" >/dev/null 2>&1; then
			echo "${pattern/RELEASE/$release}"
			return
		fi
	done
	die "the package manager has no JDK ${RELEASES[*]}; please install one by hand"
}

# packages prints what a package manager calls a JDK and Maven.
packages() {
	local jdk=''
	case $1 in
	apt) apt_lists && jdk=$(first_that apt-cache show -- openjdk-RELEASE-jdk-headless) ;;
	dnf) jdk=$(first_that dnf -q info -- java-RELEASE-openjdk-devel) ;;
	apk) as_root apk update >&2 && jdk=$(first_that apk info --exists -- openjdkRELEASE) ;;
	pacman) jdk=jdk-openjdk ;;
	brew) ;; # its Maven brings a JDK
	esac || return
	echo "$jdk" maven
}

main() {
	local names
	if present; then return 0; fi
	[[ ${1:-} != --check ]] || return 1

	find_manager "Maven and a JDK, $MIN_JAVA or later"
	say "Maven, or a JDK ($MIN_JAVA or later) for it, is missing - installing through $manager"
	names=$(packages "$manager")
	"${manager}_install" $names
	present || die "installed, but Maven does not run on a JDK $MIN_JAVA or later; does JAVA_HOME name another one?"
	say "done"
}

main "$@"
