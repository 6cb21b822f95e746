#!/usr/bin/env bash
# Installs what builds the images and runs the local cluster's real node: buildah,
# containerd, runc, the CNI plugins, iptables and iproute2, as Debian and its relatives
# package them. Quick and silent when all of it is there. Starts no service: the real node
# runs a containerd of its own.
#
#   hack/install-node-tools.sh
set -euo pipefail

cni=${CNI_BIN_DIR:-/usr/lib/cni}

# package=what the package brings; a path is looked for as it stands, a name in PATH.
tools=(
	buildah=buildah
	containerd=containerd
	containerd=ctr
	runc=runc
	containernetworking-plugins="$cni/ptp"
	containernetworking-plugins="$cni/host-local"
	iptables=iptables-save
	iproute2=ip
)

# The programs of iptables and others live in sbin, which a plain user's PATH may lack.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing_packages() {
	local tool
	for tool in "${tools[@]}"; do
		command -v "${tool#*=}" >/dev/null || printf '%s\n' "${tool%%=*}"
	done | sort -u
}

mapfile -t packages < <(missing_packages)
[ "${#packages[@]}" -gt 0 ] || exit 0

fail() {
	printf 'install-node-tools: %s\n' "$*" >&2
	exit 1
}

command -v apt-get >/dev/null ||
	fail "this machine has no apt-get; install by other means what Debian calls: ${packages[*]}"
[ "$(id -u)" = 0 ] ||
	fail "missing: ${packages[*]}; installing them needs root: sudo $0"

printf 'install-node-tools: installing %s\n' "${packages[*]}"
log=$(mktemp)
policy=$(mktemp -d)
trap 'rm -rf "$log" "$policy"' EXIT

# Debian asks this program before it starts a service of a package (101: do not). A machine
# that has one keeps it; else it is there for this installation only.
if [ ! -e /usr/sbin/policy-rc.d ]; then
	trap 'rm -rf "$log" "$policy" /usr/sbin/policy-rc.d' EXIT
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod +x /usr/sbin/policy-rc.d
fi

install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >"$log" 2>&1
}
if ! install; then
	# The package lists may be old, or have never been fetched.
	apt-get update -q >>"$log" 2>&1 && install || {
		tail -n 15 "$log" >&2
		fail "apt-get could not install ${packages[*]}; its last lines are above"
	}
fi

mapfile -t packages < <(missing_packages)
[ "${#packages[@]}" -eq 0 ] || fail "still missing after the installation: ${packages[*]}"
