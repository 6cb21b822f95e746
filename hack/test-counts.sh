#!/usr/bin/env bash
# Prints how many tests of all suites passed, failed and were skipped, by the event
# files that gotestsum wrote. Skipped tests are named, never silent.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
count() { cat dist/unit.json dist/e2e.json | grep -c "\"Action\":\"$1\".*\"Test\":" || true; }
cat dist/unit.json dist/e2e.json | sed -n 's/.*"Action":"skip","Package":"\([^"]*\)","Test":"\([^"]*\)".*/skipped: \1 \2/p'
echo "$(count pass) passed, $(count fail) failed, $(count skip) skipped"
