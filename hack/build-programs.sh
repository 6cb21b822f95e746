#!/bin/sh
# Compiles the two programs of the images. The Dockerfile and hack/images.sh both do it with
# this script, so that the same sources give the same bytes either way: static, without
# symbols, without the paths and the version control state of the machine.
#
#   hack/build-programs.sh FOLDER VERSION
set -eu
out=$1
version=$2

umask 022 # the images' user, who is nobody here, must be able to run them
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false"
ldflags="-s -w -buildid= -X cardquota.dev/operator/internal/build.Version=$version"
go build -ldflags "$ldflags" -o "$out/" ./cmd/manager ./cmd/scheduler
mv "$out/scheduler" "$out/cardquota-scheduler"

# Where Volcano's own Deployment runs our image, nothing is mounted at /tmp, and its user is
# another one: the scheduler keeps the private copy of its configuration there.
mkdir -p "$out/root/tmp"
chmod 1777 "$out/root/tmp"
