#!/usr/bin/env bash
# Builds what the local cluster runs (module hack/controlplane) into ./bin/controlplane: etcd,
# Kubernetes, Volcano's controllers and webhooks, kwok, and beside them Volcano's manifests. With
# "full" also what only tests and benchmarks start: the programs of a real node, Kubernetes'
# scheduler and Volcano's. Quick and silent when nothing changed.
#
#   hack/build-controlplane.sh [full]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

sources=("$root"/hack/controlplane/go.{mod,sum})
ldflags='-s -w -X k8s.io/component-base/version.gitVersion=v1.34.1'
ldflags+=' -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34'

# compile PACKAGE…: says how far it is, because a cold build takes minutes.
compile() {
	patch_kwok
	cd "$root/hack/controlplane"
	# Go downloads as many modules at once as it has processors, and compiles nothing meanwhile.
	go build std &
	GOMAXPROCS=32 go list -modfile "$tmp/go.mod" -deps "$@" 2>&1 >"$tmp/packages" | report '^go: downloading' 50 'modules downloaded'
	wait
	go build -modfile "$tmp/go.mod" -v -ldflags "$ldflags" -o "$out/" "$@" 2>&1 |
		report '^[^ :#]+$' 200 "of at most $(wc -l <"$tmp/packages") packages compiled"
}

# report PATTERN STEP WHAT: counts the lines that match and says so every STEP; prints the others.
report() {
	awk -v pattern="$1" -v step="$2" -v what="$3" '
		$0 ~ pattern { if (++n % step == 0) { printf "build: %d %s\n", n, what; fflush() }; next }
		{ print; fflush() }' >&2
}

# patch_kwok makes a go.mod in $tmp with a kwok that builds with Kubernetes 1.34, which no longer
# exports the name of one annotation. With kwok's own Kubernetes 1.33 all of that would be compiled
# a second time.
patch_kwok() {
	local module
	cp "$root"/hack/controlplane/go.{mod,sum} "$tmp/"
	module=$(cd "$root/hack/controlplane" && go mod download -json sigs.k8s.io/kwok | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir "$tmp/kwok"
	cp -R --no-preserve=mode "$module"/{go.mod,cmd,pkg,kustomize} "$tmp/kwok/"
	sed -i 's|metav1.InitialEventsListBlueprintAnnotationKey|"kubernetes.io/initial-events-list-blueprint"|' \
		"$tmp/kwok/pkg/utils/informer/informer.go"
	go mod edit -replace "sigs.k8s.io/kwok=$tmp/kwok" "$tmp/go.mod"
}

build() {
	compile \
		go.etcd.io/etcd/server/v3 \
		k8s.io/kubernetes/cmd/kube-apiserver \
		k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kubectl \
		volcano.sh/volcano/cmd/controller-manager \
		volcano.sh/volcano/cmd/webhook-manager \
		sigs.k8s.io/kwok/cmd/kwok
	mv "$out/server" "$out/etcd" # go build names it after its package

	# Volcano's CRDs, RBAC and webhook configurations come with its module.
	local volcano
	volcano=$(go list -m -f '{{.Dir}}' volcano.sh/volcano)
	mkdir -p "$out/volcano/crds"
	cp --no-preserve=mode "$volcano"/config/crd/{volcano,jobflow}/bases/*.yaml "$out/volcano/crds/"
	cp --no-preserve=mode "$volcano/installer/volcano-development.yaml" "$out/volcano/install.yaml"
}
stamped_build controlplane 'etcd, Kubernetes, Volcano and kwok (minutes when cold)' "${sources[@]}"
link_into "$root/bin/controlplane"

if [ "${1:-}" = full ]; then
	build() {
		compile \
			k8s.io/kubernetes/cmd/kube-scheduler \
			k8s.io/kubernetes/cmd/kubelet \
			k8s.io/kubernetes/cmd/kube-proxy \
			volcano.sh/volcano/cmd/scheduler
	}
	stamped_build schedulers-and-node 'the schedulers of Kubernetes and Volcano, kubelet and kube-proxy' "${sources[@]}"
	link_into "$root/bin/controlplane"
fi
