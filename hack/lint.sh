#!/usr/bin/env bash
# Runs the linters on the project and on its other modules in parallel.
#
#   hack/lint.sh
#
# golangci-lint caches its findings by absolute path, and needs minutes for new files. So every
# clone is linted as a copy at one path: a new clone costs only what differs from the last one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/folders.sh"
place=$(cache_folder lint)
exec 9>"$place/lock"
flock 9
rm -rf "$place/tree"
mkdir "$place/tree"
cd "$root"
git ls-files -z --cached --others --exclude-standard |
	tar --create --null --files-from=- --ignore-failed-read --warning=no-failed-read |
	tar --extract --directory="$place/tree"

config=.golangci.yml
lint() { # MODULE
	cd "$place/tree/$1" && "$root/bin/golangci-lint" run --allow-parallel-runners -c "$place/tree/$config" ./...
}
export root place config
export -f lint
printf '%s\0' . hack/{alerts,boards,bundle,certmanager,pictures,sbom,style} | xargs -0 -P "$(nproc)" -I{} bash -euc 'lint {}' 9>&-
go -C hack/style test -count=1 -vet=off ./...
go -C hack/style run . "$root"
go -C hack/style run ./measure -root "$root" -check
