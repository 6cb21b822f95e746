# Folders for the scripts beside this one. To be sourced:
#
#   . "$(dirname "${BASH_SOURCE[0]}")/folders.sh"
#
# shellcheck shell=bash

# cache_folder NAME prints the folder NAME of Cardquota's cache, below ~/.cache. Where the user has
# none, or it is another user's (sudo), a folder of ./bin takes its place. ROOT is the project's.
cache_folder() {
	local base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} folder
	if [ -n "$base" ] && mkdir -p "$base" 2>/dev/null && [ -O "$base" ] && mkdir -p "$base/cardquota/$1" 2>/dev/null &&
		[ -w "$base/cardquota/$1" ]; then
		folder=$base/cardquota/$1
	else
		folder=$root/bin/.cache/$1
		mkdir -p "$folder"
	fi
	printf '%s\n' "$folder"
}

# make_temporary FOLDER makes a temporary folder in FOLDER and sets tmp to it; Go and mktemp make
# theirs inside it. It goes when the script ends, is interrupted or terminated. What a killed
# script left in FOLDER goes with the next call: no process holds its lock any more.
make_temporary() {
	local parent=$1 guard old lock
	mkdir -p "$parent"
	exec {guard}<"$parent"
	flock "$guard" # a folder without a lock is not one that another script makes just now
	for old in "$parent"/tmp.*; do
		if { exec {lock}<"$old"; } 2>/dev/null; then
			flock -n "$lock" && rm -rf "$old"
			exec {lock}<&-
		fi
	done
	tmp=$(mktemp -d "$parent/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	# Without these bash may go on after Ctrl-C, when what it waits for has ended by itself.
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	exec {lock}<"$tmp" # stays open, also in what the script starts: a folder in use keeps its lock
	flock "$lock"
	exec {guard}<&-
	export TMPDIR=$tmp GOTMPDIR=$tmp
}
