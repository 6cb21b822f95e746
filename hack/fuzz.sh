#!/usr/bin/env bash
# Fuzzes every target for FUZZTIME, one after the other, even if one fails. Failing inputs are
# stored under testdata/fuzz of their package, where every go test runs them.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
mapfile -t targets < <(grep -roE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' api cmd internal test | sort)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: there is no target" >&2; exit 1; }
failed=()
for target in "${targets[@]}"; do
	package=./$(dirname "${target%%:*}") name=${target##* }
	printf '\n== %s %s\n' "$package" "$name"
	go test "$package" -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" || failed+=("$name")
done
printf '\nfuzz: %s targets, %s failed: %s\n' "${#targets[@]}" "${#failed[@]}" "${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
