#!/usr/bin/env bash
# Builds the images of both programs without a registry and without a container engine, from
# programs compiled here, by the same Dockerfile that a container engine would use:
#
#   dist/images/cardquota-{manager,scheduler}.tar       OCI archives
#   dist/images/cardquota-{manager,scheduler}.cdx.json  what is inside (CycloneDX)
#
# The same commit gives the same digests. It needs root, for buildah.
#
#   hack/images.sh [FOLDER]
#
# Environment: VERSION (default: git describe), REGISTRY (default: localhost) name the
# images REGISTRY/cardquota-manager:VERSION; REVISION and SOURCE_DATE_EPOCH (default: those
# of the commit) are written into them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$(realpath -m "${1:-dist/images}")
version=${VERSION:-$(git describe --tags --always --dirty)}
registry=${REGISTRY:-localhost}
revision=${REVISION:-$(git rev-parse HEAD)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

if [ "$(id -u)" != 0 ]; then
	# sudo's own PATH (secure_path) need not have Go in it.
	echo "images: building images needs root: sudo env \"PATH=\$PATH\" make images VERSION=$version" >&2
	exit 1
fi
command -v buildah >/dev/null || hack/install-node-tools.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Whoever used sudo owns what is made, folders included: make test writes beside it as that user.
mapfile -t made < <(for folder in "$(dirname "$out")" "$out"; do [ -d "$folder" ] || echo "$folder"; done)
mkdir -p "$out" "$work/build/out" "$work/context"
give() { [ -z "${SUDO_UID:-}" ] || [ $# = 0 ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@"; }
give "${made[@]}"

printf 'images: compiling %s\n' "$version"
hack/build-programs.sh "$work/build/out" "$version"
(cd hack/sbom && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/sbom" .)

# image TARGET BINARY
image() {
	local name=cardquota-$1
	rm -f "$out/$name.tar"
	# A storage of its own: nothing is left in the machine's. The context is empty, because
	# the stage that would copy sources is replaced.
	buildah --storage-driver vfs --root "$work/root" --runroot "$work/runroot" bud --quiet \
		--isolation chroot --format oci --timestamp "$SOURCE_DATE_EPOCH" \
		--build-context "build=$work/build" --target "$1" --file Dockerfile \
		--build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
		--build-arg "CREATED=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
		--tag "oci-archive:$out/$name.tar:$registry/$name:$version" "$work/context" >/dev/null
	"$work/sbom" -binary "$work/build/out/$2" -name "$name" -version "$version" >"$out/$name.cdx.json"
	give "$out/$name.tar" "$out/$name.cdx.json"
	printf 'images: %s/%s:%s in %s\n' "$registry" "$name" "$version" "$out/$name.tar"
}

image manager manager
image scheduler cardquota-scheduler
