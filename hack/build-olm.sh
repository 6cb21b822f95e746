#!/usr/bin/env bash
# Builds what an installation by OLM needs on this machine (module hack/olm) into ./bin/olm:
# OLM's two operators, olm and catalog, and opm, which makes and serves catalogs; and lays
# OLM's CRDs beside them. Quick and silent when nothing changed.
#
#   hack/build-olm.sh [--force]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

out=$root/bin/olm
olm=github.com/operator-framework/operator-lifecycle-manager
registry=github.com/operator-framework/operator-registry
# Without these opm needs C libraries for images that it never touches here.
opm_tags=json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper

complete() {
	local name
	for name in olm catalog opm; do
		[ -x "$out/$name" ] || return 1
	done
	[ -d "$out/crds" ]
}

build() {
	cd "$root/hack/olm"
	go build -trimpath -ldflags '-s -w' -o "$out/" "$olm/cmd/olm" "$olm/cmd/catalog"
	go build -trimpath -ldflags '-s -w' -tags "$opm_tags" -o "$out/" "$registry/cmd/opm"

	rm -rf "$out/crds"
	mkdir "$out/crds"
	cp "$(go list -m -f '{{.Dir}}' "$olm")"/deploy/chart/crds/*.yaml "$out/crds/"
	chmod -R u+w "$out/crds" # module files are read-only
}

stamped_build 'OLM and opm' "$out" "$root"/hack/olm/go.{mod,sum}
