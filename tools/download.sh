#!/usr/bin/env bash
# download.sh [--tidy] FOLDER…: downloads every module that the go.mod of each folder requires into
# Go's module cache, and prints the progress. The later steps of a target run with GOPROXY=off. With
# --tidy it also downloads the modules that "go mod tidy" reads.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
# The Makefile sets GOPROXY=off for all other steps, and passes the user's value in this variable.
if [ -n "${DOWNLOAD_GOPROXY:-}" ]; then export GOPROXY=$DOWNLOAD_GOPROXY; else unset GOPROXY; fi
cache=$(go env GOMODCACHE)/cache/download
tidy=
if [ "${1:-}" = --tidy ]; then tidy=yes; shift; fi

# required: prints "PATH VERSION" for each module that the go.mod of the current folder requires,
# after its replacements. It skips modules of this repository, which have no version.
required() {
  go mod edit -json | awk -F'"' '
    /^\t"/ { section = $2; side = "" }
    $2 == "Old" || $2 == "New" { side = $2 }
    $2 == "Path" && section == "Require" { path = $4; version[path] = ""; to[path] = path }
    $2 == "Version" && section == "Require" { version[path] = $4 }
    $2 == "Path" && side == "Old" { path = $4 }
    $2 == "Path" && side == "New" && path in to { to[path] = $4; version[path] = "" }
    $2 == "Version" && side == "New" && path in to { version[path] = $4 }
    END { for (path in to) if (version[path] != "") print to[path], version[path] }'
}

wanted=$(mktemp) present=$(mktemp)
trap 'rm -f "$wanted" "$present"' EXIT
# The names of the zip files in the cache. A capital letter is written as "!" and the small letter
# (go.dev/ref/mod#module-cache).
for folder in "$@"; do (cd "$folder" && required); done | sort -u |
  sed -e 's/[A-Z]/!\l&/g' -e "s#^\([^ ]*\) \(.*\)#$cache/\1/@v/\2.zip#" >"$wanted"
total=$(wc -l <"$wanted")

progress() {
  while read -r zip; do [ ! -e "$zip" ] || echo; done <"$wanted" >"$present"
  echo "modules $(wc -l <"$present") of $total"
}

# Go downloads GOMAXPROCS modules at a time.
fetch() {
  for folder in "$@"; do
    (cd "$folder" && GOMAXPROCS=16 go mod download) || return
    # Ignore the result: this only downloads modules.
    [ -z "$tidy" ] || (cd "$folder" && go mod tidy -diff >/dev/null) || true
  done
}

while sleep 2 >/dev/null 2>&1; do progress; done &
clock=$!
trap 'kill $clock 2>/dev/null || true; rm -f "$wanted" "$present"' EXIT
failed=
fetch "$@" || failed=yes
kill $clock
wait $clock 2>/dev/null || true
if [ -n "$failed" ]; then
  progress
  echo "outrigger: the Go modules above cannot be downloaded; if this machine needs a proxy for Go modules, set GOPROXY and run this again: what is downloaded stays" >&2
  exit 1
fi
progress
