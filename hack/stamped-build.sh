# The frame of the scripts that build what others wrote from pinned modules: quick and silent when
# nothing changed. A stamp tells, of everything that decides the result: Go's version and settings,
# the sources that the script names, the script itself and this file. To be sourced:
#
#   . "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"  # sets root; knows --force
#   complete() { …; }                                    # whether everything is there
#   build() { …; }                                       # makes it
#   stamped_build LABEL FOLDER SOURCE…                   # the folder holds the stamp, too
#
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
decisive=("$(realpath "${BASH_SOURCE[0]}")" "$(realpath "$0")")
force=${1:-}

# Static programs, which also run in images built from scratch. All builds say the same here, so
# that what one compiled is used by the others.
export CGO_ENABLED=0

stamp() { # SOURCE…
	{
		go version
		go env GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GOFLAGS CGO_ENABLED
		cat "$@" "${decisive[@]}"
	} | sha256sum | cut -d' ' -f1
}

stamped_build() {
	local label=$1 folder=$2 want started=$SECONDS
	shift 2
	want=$(stamp "$@")
	if [ "$force" != --force ] && complete && [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$want" ]; then
		return
	fi
	printf 'build: %s (minutes when cold, seconds when cached)\n' "$label"
	mkdir -p "$folder"
	rm -f "$folder/.stamp"
	build
	printf '%s\n' "$want" >"$folder/.stamp"
	printf 'build: %s ready after %d s\n' "$label" $((SECONDS - started))
}
