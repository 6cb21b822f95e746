#!/usr/bin/env bash
# Builds cert-manager's controllers as one program (module hack/certmanager) into
# ./bin/certmanager and lays cert-manager's CRDs beside it. Quick and silent when nothing
# changed.
#
#   hack/build-certmanager.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

build() {
	cd "$root/hack/certmanager"
	go build -ldflags '-s -w' -o "$out/certmanager" .

	mkdir "$out/crds"
	cp --no-preserve=mode "$(go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)"/deploy/crds/*.yaml "$out/crds/"
}

stamped_build certmanager cert-manager "$root"/hack/certmanager/{go.mod,go.sum,*.go}
link_into "$root/bin/certmanager"
