#!/usr/bin/env bash
# Builds everything the local cluster runs (module hack/controlplane: etcd, Kubernetes,
# Volcano; module hack/kwok: kwok) into ./bin, and lays Volcano's manifests beside it.
# Quick and silent when nothing changed: a stamp of the two modules, the Go version and
# this script tells.
#
#   hack/build-controlplane.sh [--force]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/bin/controlplane
stamp_file=$out/.stamp
kube_version=v1.34.1

export CGO_ENABLED=0 # static binaries also run in images built from scratch
ldflags="-X k8s.io/component-base/version.gitVersion=$kube_version"
ldflags+=" -X k8s.io/component-base/version.gitMajor=1"
ldflags+=" -X k8s.io/component-base/version.gitMinor=34"

stamp() {
	{
		go version
		go env GOOS GOARCH GOFLAGS
		cat "$root"/hack/controlplane/go.{mod,sum} "$root"/hack/kwok/go.{mod,sum} "${BASH_SOURCE[0]}"
	} | sha256sum | cut -d' ' -f1
}

complete() {
	local name
	for name in etcd kube-apiserver kube-controller-manager kubectl \
		controller-manager scheduler webhook-manager; do
		[ -x "$out/$name" ] || return 1
	done
	[ -x "$root/bin/kwok" ] && [ -s "$out/volcano/install.yaml" ] && [ -d "$out/volcano/crds" ]
}

# build LABEL MODULE OUTPUT PACKAGE…: compiles and reports every 200 packages, because a
# cold build takes minutes.
build() {
	local label=$1 module=$2 target=$3
	shift 3
	printf 'build: %s\n' "$label"
	(cd "$root/hack/$module" && go build -v -trimpath -ldflags "$ldflags" -o "$target" "$@") 2>&1 |
		awk -v label="$label" '
			/^[^ :#]+$/ { if (++n % 200 == 0) { printf "build: %s: %d packages compiled\n", label, n; fflush() }; next }
			{ print; fflush() }' >&2
}

want=$(stamp)
if [ "${1:-}" != --force ] && complete && [ "$(cat "$stamp_file" 2>/dev/null)" = "$want" ]; then
	exit 0
fi

started=$SECONDS
printf 'build: control plane of the local cluster (minutes when cold, seconds when cached)\n'
mkdir -p "$out"
rm -f "$stamp_file"

# go build would name etcd after its package, "server".
build etcd controlplane "$out/etcd" go.etcd.io/etcd/server/v3
build 'Kubernetes and Volcano' controlplane "$out/" \
	k8s.io/kubernetes/cmd/kube-apiserver \
	k8s.io/kubernetes/cmd/kube-controller-manager \
	k8s.io/kubernetes/cmd/kubectl \
	volcano.sh/volcano/cmd/controller-manager \
	volcano.sh/volcano/cmd/scheduler \
	volcano.sh/volcano/cmd/webhook-manager
build kwok kwok "$root/bin/kwok" sigs.k8s.io/kwok/cmd/kwok

# Volcano's CRDs, RBAC and webhook configurations come with its module.
volcano=$(cd "$root/hack/controlplane" && go list -m -f '{{.Dir}}' volcano.sh/volcano)
rm -rf "$out/volcano"
mkdir -p "$out/volcano/crds"
cp "$volcano"/config/crd/volcano/bases/*.yaml "$volcano"/config/crd/jobflow/bases/*.yaml "$out/volcano/crds/"
cp "$volcano/installer/volcano-development.yaml" "$out/volcano/install.yaml"
chmod -R u+w "$out/volcano" # module files are read-only

printf '%s\n' "$want" >"$stamp_file"
printf 'build: control plane ready after %d s\n' $((SECONDS - started))
