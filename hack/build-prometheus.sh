#!/usr/bin/env bash
# Puts Prometheus and promtool into ./bin/prometheus, for tests that scrape the running programs:
# those in PATH, else those of Debian's package. It needs no root, installs nothing, and leaves the
# package lists of the machine alone. The version is that of the machine's Debian. Where there is no
# Prometheus, it says so and succeeds, and the tests are skipped by name. Quick and silent when
# nothing changed.
#
#   hack/build-prometheus.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"
programs=(prometheus promtool)

if command -v "${programs[@]}" >/dev/null && [ "$(command -v "${programs[@]}" | wc -l)" = 2 ]; then
	mkdir -p "$root/bin/prometheus"
	for program in "${programs[@]}"; do
		ln -sf "$(command -v "$program")" "$root/bin/prometheus/$program"
	done
	exit 0
fi

skip() {
	printf 'build: no Prometheus: %s. Tests that scrape the programs are skipped.\n' "$*" >&2
	exit 0
}
for tool in apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || skip "this machine has no $tool; put ${programs[*]} into PATH"
done

# download fetches the package into the working folder. The machine's package lists may be old, or
# missing on a fresh machine: then it fetches lists into a folder of its own.
download() {
	apt-get download prometheus || {
		local own=$PWD/apt
		mkdir -p "$own"/{state/lists,cache/archives}/partial
		# As root, apt drops to a user that cannot enter this folder.
		own=(-o "Dir::State=$own/state" -o "Dir::State::lists=$own/state/lists" -o "Dir::State::status=/var/lib/dpkg/status"
			-o "Dir::Cache=$own/cache" -o "APT::Sandbox::User=$(id -un)")
		apt-get "${own[@]}" update && apt-get "${own[@]}" download prometheus
	}
}

build() {
	(mkdir "$tmp/package" && cd "$tmp/package" && download) >"$tmp/log" 2>&1 || {
		tail -n 5 "$tmp/log" >&2
		skip "apt-get cannot download it"
	}
	dpkg-deb --extract "$tmp"/package/prometheus_*.deb "$tmp/tree"
	cp "${programs[@]/#/"$tmp/tree/usr/bin/"}" "$out/"
	"$out/prometheus" --version 2>&1 | head -n 1
}

settings+=("$(cat /etc/os-release)") # another release of Debian has another version
stamped_build prometheus Prometheus
link_into "$root/bin/prometheus"
