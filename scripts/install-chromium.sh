#!/usr/bin/env bash
# Installs Chromium, which the tests of the sale's page need, through the package
# manager of the system. Only what is missing is installed, and nothing is said or
# done if nothing is. Google Chrome will do where it is installed.
#
#   scripts/install-chromium.sh          install it if it is missing
#   scripts/install-chromium.sh --check  only say, by the exit code, whether it is there
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "$(dirname "$0")/packages.sh"

# What systems call it, as in test/browser.
NAMES=(google-chrome google-chrome-stable chromium chromium-browser)

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

main() {
	if present; then return 0; fi
	[[ ${1:-} != --check ]] || return 1

	find_manager "Chromium or Google Chrome"
	say "Chromium is missing - installing through $manager"
	case $manager in
	brew) brew_install --cask chromium ;;
	*) "${manager}_install" chromium ;;
	esac
	present || die "installed, but none of ${NAMES[*]} runs; please install Chromium or Google Chrome by hand"
	say "done"
}

main "$@"
