#!/usr/bin/env bash
# Builds pinned tools (module hack/tools) into ./bin. Quick and silent when nothing changed.
#
#   hack/build-tools.sh NAME=PACKAGE…
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"

for tool in "$@"; do
	build() { (cd "$root/hack/tools" && go build -ldflags '-s -w' -o "$out/${tool%%=*}" "${tool#*=}"); }
	stamped_build "${tool%%=*}" "${tool%%=*}" "$root"/hack/tools/go.{mod,sum}
	link_into "$root/bin"
done
