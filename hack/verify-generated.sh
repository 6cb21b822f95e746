#!/usr/bin/env bash
# Checks that generated files are up to date, and that every kustomization and component renders.
# Generates into a copy, so that the tree is never changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/folders.sh"
make_temporary "$root/bin/.tmp"
copy=$tmp/generated
cd "$root"

# together COMMAND… runs shell commands in parallel; it fails when one of them does.
together() { printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I{} bash -euc '{}'; }

mkdir -p "$copy/docs" "$copy/api/v1alpha1" "$copy/config/crd/bases" "$copy/config/rbac"
gen=bin/controller-gen
together \
	"$gen rbac:roleName=cardquota-manager,fileName=manager_role.yaml paths=./internal/controller/... paths=./internal/webhook/... output:rbac:dir=$copy/config/rbac" \
	"$gen object paths=./api/... output:object:dir=$copy/api/v1alpha1" \
	"$gen crd:maxDescLen=1000000 paths=./api/... output:crd:dir=$copy/config/crd/bases" \
	"bin/crd-ref-docs --config hack/crd-ref-docs.yaml --source-path api --renderer markdown --output-path $copy/docs/api.md --log-level ERROR"

failed=0
while IFS= read -r file; do
	if ! diff -u "$file" "$copy/$file"; then
		echo "verify: $file is not what its source generates: run 'make generate'" >&2
		failed=1
	fi
done < <(cd "$copy" && find . -type f)

# A component renders only inside of a kustomization: each one with config/default, and all
# together, as users combine them.
all=$tmp/all
mkdir "$all" && cp -R config "$all/"
renders=() components=()
with() { # COMPONENT…
	local folder=$all/rendered-${#renders[@]}
	mkdir "$folder"
	{
		printf 'resources: [../config/default]\ncomponents:\n'
		printf -- '- ../%s\n' "$@"
	} >"$folder/kustomization.yaml"
	render "$folder"
}
render() { renders+=("bin/kustomize build $1 >/dev/null || { echo 'verify: $1 does not render' >&2; exit 1; }"); }
while IFS= read -r kustomization; do
	folder=$(dirname "$kustomization")
	if grep -q '^kind: Component$' "$kustomization"; then
		components+=("$folder")
		with "$folder"
	else
		render "$folder"
	fi
done < <(find config -name kustomization.yaml | sort)
with "${components[@]}"
together "${renders[@]}" || failed=1
[ "$failed" = 0 ] && echo "verify: generated files are up to date, every kustomization and component renders"
exit "$failed"
