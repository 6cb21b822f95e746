#!/usr/bin/env bash
# Builds cert-manager's controllers as one program (module hack/certmanager) into
# ./bin/certmanager and lays cert-manager's CRDs beside it. Quick and silent when nothing
# changed.
#
#   hack/build-certmanager.sh [--force]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

out=$root/bin/certmanager

complete() { [ -x "$out/certmanager" ] && [ -d "$out/crds" ]; }

build() {
	cd "$root/hack/certmanager"
	# Neither -trimpath nor static: compiled like the tests, most packages serve both.
	(unset CGO_ENABLED && go build -ldflags '-s -w' -o "$out/certmanager" .)

	rm -rf "$out/crds"
	mkdir "$out/crds"
	cp "$(go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)"/deploy/crds/*.yaml "$out/crds/"
	chmod -R u+w "$out/crds" # module files are read-only
}

stamped_build cert-manager "$out" "$root"/hack/certmanager/{go.mod,go.sum,*.go}
