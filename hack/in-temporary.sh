#!/usr/bin/env bash
# Runs a command whose temporary files lie in a folder of ./bin, which goes when the command ends
# or is killed.
#
#   hack/in-temporary.sh COMMAND…
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/folders.sh"
make_temporary "$root/bin/.tmp"
"$@"
