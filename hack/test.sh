#!/usr/bin/env bash
# Runs make targets one after the other, all of them even if one fails, and ends with
# how many tests of all suites passed, failed and were skipped. A skipped test is named.
#
#   hack/test.sh TARGET…
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
rm -f dist/unit.json dist/e2e.json
mkdir -p dist
failed=()
for target in "$@"; do
	printf '\n== %s\n' "$target"
	make "$target" || failed+=("$target")
done

touch dist/unit.json dist/e2e.json
count() { cat dist/unit.json dist/e2e.json | grep -c "\"Action\":\"$1\".*\"Test\":"; }
sed -n 's/.*"Action":"skip","Package":"\([^"]*\)","Test":"\([^"]*\)".*/skipped: \1 \2/p' dist/unit.json dist/e2e.json
printf '\n'
[ ${#failed[@]} -eq 0 ] || printf 'failed: %s\n' "${failed[*]}"
printf '%s passed, %s failed, %s skipped\n' "$(count pass)" "$(count fail)" "$(count skip)"
[ ${#failed[@]} -eq 0 ]
