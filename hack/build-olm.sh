#!/usr/bin/env bash
# Builds what an installation by OLM needs on this machine (module hack/olm) into ./bin/olm:
# OLM's two operators, olm and catalog, and opm, which makes and serves catalogs; and lays
# OLM's CRDs beside them. Quick and silent when nothing changed.
#
#   hack/build-olm.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

olm=github.com/operator-framework/operator-lifecycle-manager
# Without these opm needs C libraries for images that it never touches here.
opm_tags=json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper

build() {
	cd "$root/hack/olm"
	go build -ldflags '-s -w' -tags "$opm_tags" -o "$out/" \
		"$olm/cmd/olm" "$olm/cmd/catalog" github.com/operator-framework/operator-registry/cmd/opm

	mkdir "$out/crds"
	cp --no-preserve=mode "$(go list -m -f '{{.Dir}}' "$olm")"/deploy/chart/crds/*.yaml "$out/crds/"
}

stamped_build olm 'OLM and opm' "$root"/hack/olm/go.{mod,sum}
link_into "$root/bin/olm"
