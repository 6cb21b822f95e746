#!/usr/bin/env bash
# Runs a command with its temporary files in a folder of ./bin, which is removed when the command
# ends or is killed.
#
#   hack/in-temporary.sh COMMAND…
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/folders.sh"
make_temporary "$root/bin/.tmp"
"$@"
