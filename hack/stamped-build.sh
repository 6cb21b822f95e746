# The frame of the scripts whose results are kept from run to run and shared by all clones. A result
# is a folder of the user's cache. Its name, a hash, says everything that decides it: Go's version
# and settings, the sources that the script names, the script itself and this file. To be sourced:
#
#   . "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"  # sets root
#   build() { …; }                                       # fills the folder $out; $tmp is for scratch
#   stamped_build NAME LABEL SOURCE…                     # sets kept to the folder with the result
#   link_into FOLDER                                     # links what is in it into FOLDER
#
# A result appears only when it is complete. Builds of one name wait for each other. What was not
# used for 30 days is removed when something new is built.
#
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/folders.sh"
decisive=("$(realpath "${BASH_SOURCE[0]}")" "$(realpath "$0")")
settings=() # what decides the result besides

# Static programs, which also run in images built from scratch, and no paths of this clone. All
# builds and tests say the same, so that what one compiled is used by the others.
export CGO_ENABLED=0
GOFLAGS=$(printf '%s\n' $(go env GOFLAGS) -trimpath | sort -u | paste -sd ' ')
export GOFLAGS

stamp() { # SOURCE…
	{
		go version
		go env GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT CGO_ENABLED
		printf '%s\n' "$GOFLAGS" "${settings[@]}"
		cd "$root" && sha256sum "${@#"$root"/}" "${decisive[@]#"$root"/}"
	} | sha256sum | cut -c1-24
}

# list prints the files of a result with their sizes.
list() { (cd "$1" && find . -type f ! -name .list -printf '%s %p\n' | sort); }

# is_whole reports whether a result is there and has lost no file.
is_whole() { [ -f "$1/.list" ] && [ "$(list "$1")" = "$(cat "$1/.list")" ]; }

stamped_build() {
	local name=$1 label=$2 all lock started=$SECONDS
	shift 2
	all=$(cache_folder programs)
	kept=$all/$name-$(stamp "$@")
	if ! is_whole "$kept"; then
		exec {lock}>"$all/.lock-$name"
		if ! flock -n "$lock"; then
			printf 'build: %s: waiting for another build of it\n' "$label"
			flock "$lock"
		fi
		if ! is_whole "$kept"; then
			printf 'build: %s\n' "$label"
			make_temporary "$all/.tmp"
			out=$tmp/out
			mkdir "$out"
			build
			list "$out" >"$out/.list"
			rm -rf "$kept" # has lost files
			mv -T "$out" "$kept"
			rm -rf "$tmp"
			find "$all" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -mtime +30 -exec rm -rf {} +
			printf 'build: %s ready after %d s\n' "$label" $((SECONDS - started))
		fi
		exec {lock}>&-
	fi
	touch "$kept"
}

# link_into FOLDER leaves alone what is linked already, so that nothing that runs is disturbed.
link_into() {
	local entry target
	mkdir -p "$1"
	for entry in "$kept"/*; do
		target=$1/${entry##*/}
		if ! [ "$target" -ef "$entry" ]; then
			rm -rf "$target"
			ln -s "$entry" "$target" 2>/dev/null || cp -R "$entry" "$target"
		fi
	done
}
