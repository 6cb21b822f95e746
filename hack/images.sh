#!/usr/bin/env bash
# Builds the images of both programs without a registry and without a container engine, from
# programs compiled here, by the same Dockerfile that a container engine would use:
#
#   dist/images/cardquota-{manager,scheduler}.tar       OCI archives
#   dist/images/cardquota-{manager,scheduler}.cdx.json  what is inside (CycloneDX)
#
# The same commit gives the same digests. They are kept (hack/stamped-build.sh) and copied where
# nothing in them has changed. It needs root, for buildah.
#
#   hack/images.sh [FOLDER]
#
# Environment: VERSION (default: git describe), REGISTRY (default: localhost) name the
# images REGISTRY/cardquota-manager:VERSION; REVISION and SOURCE_DATE_EPOCH (default: those
# of the commit) are written into them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"
final=$(realpath -m "${1:-$root/dist/images}")
cd "$root"

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

# image TARGET BINARY
image() {
	local name=cardquota-$1
	# A storage of its own: nothing is left in the machine's. The context is empty, because
	# the stage that would copy sources is replaced.
	buildah --storage-driver vfs --root "$tmp/root-$1" --runroot "$tmp/runroot-$1" bud --quiet \
		--isolation chroot --format oci --timestamp "$SOURCE_DATE_EPOCH" \
		--build-context "build=$tmp/build" --target "$1" --file Dockerfile \
		--build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
		--build-arg "CREATED=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
		--tag "oci-archive:$out/$name.tar:$registry/$name:$version" "$tmp/context" >/dev/null
	"$tmp/sbom" -binary "$tmp/build/out/$2" -name "$name" -version "$version" >"$out/$name.cdx.json"
}

build() {
	mkdir -p "$tmp/build/out" "$tmp/context"
	hack/build-programs.sh "$tmp/build/out" "$version"
	(cd hack/sbom && go build -buildvcs=false -o "$tmp/sbom" .)
	image manager manager &
	image scheduler cardquota-scheduler
	wait $!
}

# The project's own sources of both programs; go.sum stands for those of others.
sources=$(go list -deps -f '{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}' ./cmd/manager ./cmd/scheduler)
mapfile -t sources < <(sort <<<"$sources" | sed '/^$/d')
settings=("$version" "$registry" "$revision" "$SOURCE_DATE_EPOCH" "$(buildah --version)")
stamped_build images "images of $version" "${sources[@]}" Dockerfile hack/build-programs.sh hack/sbom/{go.mod,go.sum,*.go} go.mod go.sum

# The user who ran sudo owns the files and folders: make test writes beside them as that user.
mapfile -t made < <(for folder in "$(dirname "$final")" "$final"; do [ -d "$folder" ] || echo "$folder"; done)
mkdir -p "$final"
for image in cardquota-manager cardquota-scheduler; do
	for file in "$image.tar" "$image.cdx.json"; do
		cp "$kept/$file" "$final/.$file"
		mv "$final/.$file" "$final/$file"
		made+=("$final/$file")
	done
	printf 'images: %s/%s:%s in %s\n' "$registry" "$image" "$version" "$final/$image.tar"
done
[ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "${made[@]}"
