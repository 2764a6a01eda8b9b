#!/usr/bin/env bash
# Installs Chromium, which the tests of the sale's page need, through the package
# manager of the system. Only what is missing is installed, and nothing is said or
# done if nothing is. Google Chrome will do where it is installed.
#
#   scripts/install-chromium.sh          install it if it is missing
#   scripts/install-chromium.sh --check  only say, by the exit code, whether it is there
set -euo pipefail

# What systems call it, as in test/browser.
NAMES=(google-chrome google-chrome-stable chromium chromium-browser)

say() { echo "install-chromium: $*" >&2; }

die() {
	say "$@"
	exit 1
}

# present runs the first, as the tests do: the chromium-browser of some Ubuntus only
# says how to install a snap.
present() {
	local name
	for name in "${NAMES[@]}"; do
		if command -v "$name" >/dev/null; then
			"$name" --version >/dev/null 2>&1
			return
		fi
	done
	return 1
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

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2
}

install_apt() {
	compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || apt_get update
	# The lists can be older than what the mirrors still hold.
	if ! apt_get install --yes --no-install-recommends chromium; then
		apt_get update
		apt_get install --yes --no-install-recommends chromium
	fi
}

install_dnf() { as_root dnf install --assumeyes chromium >&2; }

install_apk() { as_root apk add --no-cache chromium >&2; }

install_pacman() {
	compgen -G '/var/lib/pacman/sync/*.db' >/dev/null || as_root pacman -Sy >&2
	as_root pacman -S --needed --noconfirm chromium >&2
}

install_brew() { brew install --cask chromium >&2; }

main() {
	if present; then return 0; fi
	[[ ${1:-} != --check ]] || return 1

	local manager
	for manager in apt dnf apk pacman brew ''; do
		case $manager in
		apt) command -v apt-get >/dev/null && break ;;
		'') die "no known package manager: please install Chromium or Google Chrome by hand" ;;
		*) command -v "$manager" >/dev/null && break ;;
		esac
	done
	say "Chromium is missing - installing through $manager"
	"install_$manager"
	present || die "installed, but none of ${NAMES[*]} runs; please install Chromium or Google Chrome by hand"
	say "done"
}

main "$@"
