# Sourced by the scripts that install something through the package manager of the
# system: find_manager, then "${manager}_install" PACKAGE...
#
# shellcheck shell=bash disable=SC2034 # the scripts use what is set here

say() { echo "$(basename "$0" .sh): $*" >&2; }

die() {
	say "$@"
	exit 1
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

# find_manager sets manager. WHAT is to be installed by hand where there is none.
find_manager() { # WHAT
	for manager in apt dnf apk pacman brew; do
		case $manager in
		apt) command -v apt-get >/dev/null && return ;;
		*) command -v "$manager" >/dev/null && return ;;
		esac
	done
	die "no known package manager, please install by hand: $1"
}

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2
}

# apt_lists fetches the lists of packages on a machine that has none, such as a new
# container.
apt_lists() {
	compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || apt_get update
}

# apt_install tries twice: the lists can be older than what the mirrors still hold.
# Another server that provides the same, such as MySQL, must not be removed for ours.
apt_install() {
	local install=(apt_get install --yes --no-install-recommends --no-remove "$@")
	apt_lists
	"${install[@]}" && return
	apt_get update
	"${install[@]}"
}

dnf_install() { as_root dnf install --assumeyes "$@" >&2; }

apk_install() { as_root apk add --no-cache "$@" >&2; }

pacman_install() {
	compgen -G '/var/lib/pacman/sync/*.db' >/dev/null || as_root pacman -Sy >&2
	as_root pacman -S --needed --noconfirm "$@" >&2
}

brew_install() { brew install "$@" >&2; }
