#!/usr/bin/env bash
# Installs a JDK and Maven, which the interop tests need, through the package
# manager of the system. Only what is missing is installed, and nothing is said
# or done if nothing is.
#
#   scripts/install-java.sh          install what is missing
#   scripts/install-java.sh --check  only tell, by the exit code, whether nothing is
set -euo pipefail

MIN_JAVA=17

# The newest release with long support that the system has is taken.
RELEASES=(25 21 17)

say() { echo "install-java: $*" >&2; }

die() {
	say "$@"
	exit 1
}

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

as_root() {
	if ((EUID == 0)); then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "not root, and there is no sudo; run as root: $*"
	fi
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

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2
}

install_apt() {
	compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || apt_get update
	local jdk
	jdk=$(first_that apt-cache show -- openjdk-RELEASE-jdk-headless)
	# The lists can be older than what the mirrors still hold.
	if ! apt_get install --yes --no-install-recommends "$jdk" maven; then
		apt_get update
		apt_get install --yes --no-install-recommends "$jdk" maven
	fi
}

install_dnf() {
	local jdk
	jdk=$(first_that dnf -q info -- java-RELEASE-openjdk-devel)
	as_root dnf install --assumeyes "$jdk" maven >&2
}

install_apk() {
	as_root apk update >&2
	local jdk
	jdk=$(first_that apk info --exists -- openjdkRELEASE)
	as_root apk add "$jdk" maven >&2
}

install_pacman() {
	compgen -G '/var/lib/pacman/sync/*.db' >/dev/null || as_root pacman -Sy >&2
	as_root pacman -S --needed --noconfirm jdk-openjdk maven >&2
}

install_brew() { brew install maven >&2; } # it brings its own JDK

main() {
	if present; then return 0; fi
	[[ ${1:-} != --check ]] || return 1

	local manager
	for manager in apt dnf apk pacman brew ''; do
		case $manager in
		apt) command -v apt-get >/dev/null && break ;;
		'') die "no known package manager: please install Maven and a JDK, $MIN_JAVA or later, by hand" ;;
		*) command -v "$manager" >/dev/null && break ;;
		esac
	done
	say "Maven, or a JDK ($MIN_JAVA or later) for it, is missing - installing through $manager"
	"install_$manager"
	present || die "installed, but Maven does not run on a JDK $MIN_JAVA or later; does JAVA_HOME name another one?"
	say "done"
}

main "$@"
