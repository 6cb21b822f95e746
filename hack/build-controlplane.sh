#!/usr/bin/env bash
# Builds everything the local cluster runs (module hack/controlplane: etcd, Kubernetes with
# the programs of a node, Volcano; module hack/kwok: kwok) into ./bin, and lays Volcano's
# manifests beside it. Quick and silent when nothing changed.
#
#   hack/build-controlplane.sh [--force]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

out=$root/bin/controlplane
kube_version=v1.34.1
ldflags="-X k8s.io/component-base/version.gitVersion=$kube_version"
ldflags+=" -X k8s.io/component-base/version.gitMajor=1"
ldflags+=" -X k8s.io/component-base/version.gitMinor=34"

complete() {
	local name
	for name in etcd kube-apiserver kube-controller-manager kubectl \
		kube-scheduler kubelet kube-proxy controller-manager scheduler webhook-manager; do
		[ -x "$out/$name" ] || return 1
	done
	[ -x "$root/bin/kwok" ] && [ -s "$out/volcano/install.yaml" ] && [ -d "$out/volcano/crds" ]
}

# compile LABEL MODULE OUTPUT PACKAGE…: reports every 200 packages, because a cold build takes
# minutes.
compile() {
	local label=$1 module=$2 target=$3
	shift 3
	printf 'build: %s\n' "$label"
	(cd "$root/hack/$module" && go build -v -trimpath -ldflags "$ldflags" -o "$target" "$@") 2>&1 |
		awk -v label="$label" '
			/^[^ :#]+$/ { if (++n % 200 == 0) { printf "build: %s: %d packages compiled\n", label, n; fflush() }; next }
			{ print; fflush() }' >&2
}

build() {
	# go build would name etcd after its package, "server".
	compile etcd controlplane "$out/etcd" go.etcd.io/etcd/server/v3
	compile 'Kubernetes and Volcano' controlplane "$out/" \
		k8s.io/kubernetes/cmd/kube-apiserver \
		k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kubectl \
		k8s.io/kubernetes/cmd/kube-scheduler \
		k8s.io/kubernetes/cmd/kubelet \
		k8s.io/kubernetes/cmd/kube-proxy \
		volcano.sh/volcano/cmd/controller-manager \
		volcano.sh/volcano/cmd/scheduler \
		volcano.sh/volcano/cmd/webhook-manager
	compile kwok kwok "$root/bin/kwok" sigs.k8s.io/kwok/cmd/kwok

	# Volcano's CRDs, RBAC and webhook configurations come with its module.
	local volcano
	volcano=$(cd "$root/hack/controlplane" && go list -m -f '{{.Dir}}' volcano.sh/volcano)
	rm -rf "$out/volcano"
	mkdir -p "$out/volcano/crds"
	cp "$volcano"/config/crd/volcano/bases/*.yaml "$volcano"/config/crd/jobflow/bases/*.yaml "$out/volcano/crds/"
	cp "$volcano/installer/volcano-development.yaml" "$out/volcano/install.yaml"
	chmod -R u+w "$out/volcano" # module files are read-only
}

stamped_build 'control plane of the local cluster' "$out" "$root"/hack/{controlplane,kwok}/go.{mod,sum}
