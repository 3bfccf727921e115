#!/usr/bin/env bash
# bump.sh VERSION: replaces the current version of the release by the next one: in versions.mk, and
# in the files that a test keeps equal to it (charts, manifests, golden files, documentation). It
# does not change the changelog.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { echo "bump.sh: $*" >&2; exit 2; }
old=$(sed -n 's/^VERSION := //p' versions.mk)
new=${1:-}
[ -n "$new" ] || die "name the next version: make bump TO=${old%.*}.$((${old##*.} + 1))"
[[ $new =~ ^2[0-9]\.([1-9]|1[0-2])\.(0|[1-9][0-9]*)$ ]] || die "$new is no calendar version YY.MM.PATCH, such as ${old%.*}.$((${old##*.} + 1))"
[ "$old" != "$new" ] && [ "$(printf '%s\n' "$old" "$new" | sort -V | tail -n 1)" = "$new" ] || die "$new is not after $old"
mapfile -t files < <(git grep -lwF "$old" -- . ':!CHANGELOG.md' ':!*go.mod' ':!*go.sum' ':!go.work*')
sed -i "s/\b${old//./\\.}\b/$new/g" "${files[@]}"
echo "$old → $new in ${#files[@]} files; check them with \"git diff\" and \"make check\", and commit"
