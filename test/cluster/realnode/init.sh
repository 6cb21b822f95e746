#!/bin/sh
# The first process of a real node. It runs in namespaces of its own (mounts, network,
# processes) and replaces the fixed folders of containerd, the CNI plugins and the kubelet by
# private ones. Then it creates the file "ready" and reaps orphans. When it ends, the kernel ends
# every process of the node and removes its mounts and its network.
#
#   init.sh FOLDER
set -eu
dir=$1

mount --make-rprivate /
mount -t proc proc /proc

# Files below /var and /run are in memory and disappear with the node.
mount -t tmpfs node "$dir/tmp"
mkdir "$dir/tmp/var" "$dir/tmp/work" "$dir/tmp/run" "$dir/tmp/sysctl"
mount -t overlay node -o "lowerdir=/var,upperdir=$dir/tmp/var,workdir=$dir/tmp/work" /var
mount --bind "$dir/tmp/run" /run
mkdir -p /var/lib/kubelet /run/cni /run/lock
mount --bind "$dir/kubelet" /var/lib/kubelet

# The kubelet wants these settings of the whole machine and would make them. It finds them
# made, and the machine keeps its own.
pretend() {
	echo "$2" >"$dir/tmp/sysctl/$(basename "$1")"
	mount --bind "$dir/tmp/sysctl/$(basename "$1")" "/proc/sys/$1"
}
pretend vm/overcommit_memory 1
pretend vm/panic_on_oom 0
pretend kernel/panic 10
pretend kernel/panic_on_oops 1
pretend kernel/keys/root_maxkeys 1000000
pretend kernel/keys/root_maxbytes 25000000

echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$dir/ready"

trap 'exit 0' TERM
while :; do
	sleep 3600 &
	wait "$!" || :
done
