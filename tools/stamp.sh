# Sourced by scripts that do nothing while their inputs are unchanged. A stamp holds the digest of
# all inputs of a script, and the inode, size and time of each file that the script wrote. The script
# writes a file again if it is missing or was changed.

# digest: prints the digest of its input.
digest() { sha256sum | cut -d' ' -f1; }

# contents PATH…: prints the names and digests of the files below these paths, without Go test
# files, and the targets of links.
contents() {
  find "$@" -type f ! -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum
  find "$@" -type l -printf '%p %l\n' | sort
}

# written FILE…: prints the inode, size, time and name of each file.
written() { stat -c '%i %s %y %n' -- "$@"; }

# fresh STAMP DIGEST: succeeds if STAMP has this digest, and its files are unchanged.
fresh() {
  local state files
  [ "$(head -n 1 "$1" 2>/dev/null)" = "$2" ] || return
  state=$(tail -n +2 "$1")
  mapfile -t files < <(cut -d' ' -f6- <<<"$state")
  [ "$(written "${files[@]}" 2>/dev/null)" = "$state" ]
}

# stamp STAMP DIGEST FILE…: writes STAMP for these files and this digest.
stamp() {
  mkdir -p "${1%/*}"
  { echo "$2"; written "${@:3}"; } >"$1.new"
  mv "$1.new" "$1"
}
