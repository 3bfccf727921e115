#!/usr/bin/env bash
# build.sh [FOLDER | FOLDER/…]: builds commands into bin/, each under the name of its folder. FOLDER
# is one command, "FOLDER/..." is all commands in FOLDER and below it. By default, it builds all
# commands of the workspace, except those in internal folders, which are only for the build. BIN is
# the output folder, for example for another GOARCH.
# Modules are built alone (GOWORK=off), with the versions that they ship with. A command that links
# C outside of the standard library is built with cgo. Every other command is static.
# It calls Go only if a source, a flag or the compiler has changed (stamp.sh), because Go needs half a
# second per command to find out that nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD bin=${BIN:-$PWD/bin}
. tools/compile.env
. tools/stamp.sh
[ $# -gt 0 ] || mapfile -t all < <(tools/modules.sh)
[ $# -gt 0 ] || set -- "${all[@]/%//...}"

# inputs FOLDER…: prints all inputs of the build of these folders. They include all modules of the
# workspace, because a module may use each of the others.
inputs() {
  local modules
  mapfile -t modules < <(tools/modules.sh)
  printf '%s\n' "${VERSION:-dev}" "$@"
  go version
  "${CC:-gcc}" --version 2>/dev/null | head -n 1
  env | grep -E '^(CC|CGO_[A-Z]+|GO(OS|ARCH|AMD64|ARM64|FLAGS|EXPERIMENT|TOOLCHAIN))=' | sort
  contents tools/build.sh tools/stamp.sh tools/compile.env "${modules[@]}"
}

# build PACKAGE: builds the command of the current module.
build() {
  local was='' time name=${1##*/} linked cgo=0 flags="-s -w -X outrigger.dev/pkg/version.stamp=${VERSION:-dev}"
  # Leave out features that cost memory on every node and that these programs do not use: gRPC's
  # traces as web pages, documentation as man pages, and HTTP/2 in programs without a client of the
  # API server. That client needs HTTP/2, because its pings show whether the server answers.
  local tags=$tags,grpcnotrace,urfave_cli_no_docs
  linked=$(CGO_ENABLED=1 go list -tags "$tags" -deps -f '{{if not .Standard}}{{.ImportPath}} {{if .CgoFiles}}cgo{{end}}{{end}}' "$1")
  grep -qE '^(k8s.io/client-go/|outrigger.dev/pkg/kube )' <<<"$linked" || tags=$tags,nethttpomithttp2
  # Bind the symbols of NVML at the first call, not at the start of the process: an older library
  # may lack newer symbols.
  ! grep -q ' cgo$' <<<"$linked" || cgo=1 flags="$flags -extldflags=-Wl,-z,lazy"
  # Go updates the time even of an unchanged program. Restore it, because other stamps contain it.
  [ ! -e "$bin/$name" ] || { was=$(sha256sum <"$bin/$name"); time=$(stat -c %y "$bin/$name"); }
  CGO_ENABLED=$cgo go build -tags "$tags" -ldflags "$flags" -o "$bin/$name" "$1"
  [ "$(sha256sum <"$bin/$name")" != "$was" ] || touch -d "$time" "$bin/$name"
  echo "${bin#"$root/"}/$name"
}

now=$(inputs "$@" | digest)
stamp=$root/out/stamps/$(printf "%s\n" "$bin" "$@" | digest)
if fresh "$stamp" "$now"; then
  echo "${bin#"$root/"}: up to date"
  exit
fi
programs=()
for pattern in "$@"; do
  folder=${pattern%/...}
  [ -d "$root/$folder" ] || { echo "build.sh: no folder $folder" >&2; exit 2; }
  cd "$root/$folder"
  # Without cgo, the default for another GOARCH, Go rejects a command that links C.
  commands=$(CGO_ENABLED=1 go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ".${pattern#"$folder"}" | sed '/^$/d; /\/internal\//d')
  for command in $commands; do
    build "$command"
    programs+=("$bin/${command##*/}")
  done
done
[ ${#programs[@]} -eq 0 ] || stamp "$stamp" "$now" "${programs[@]}"
