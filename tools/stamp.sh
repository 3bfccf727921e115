# Sourced by scripts that have nothing to do while nothing has changed. A stamp holds the
# digest of all that decides what a script writes, and the inode, size and time of each
# file that it wrote: one that is missing or was changed since is written again.

# digest: prints the digest of its input.
digest() { sha256sum | cut -d' ' -f1; }

# contents PATH…: prints the names and digests of the files there, without those of tests
# alone, and the targets of links.
contents() {
  find "$@" -type f ! -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum
  find "$@" -type l -printf '%p %l\n' | sort
}

# written FILE…: prints what tells each file from another one of its name.
written() { stat -c '%i %s %y %n' -- "$@"; }

# fresh STAMP DIGEST: whether STAMP has this digest, and the files in it are as they were.
fresh() {
  local state files
  [ "$(head -n 1 "$1" 2>/dev/null)" = "$2" ] || return
  state=$(tail -n +2 "$1")
  mapfile -t files < <(cut -d' ' -f6- <<<"$state")
  [ "$(written "${files[@]}" 2>/dev/null)" = "$state" ]
}

# stamp STAMP DIGEST FILE…: records that the files were written for this digest.
stamp() {
  mkdir -p "${1%/*}"
  { echo "$2"; written "${@:3}"; } >"$1.new"
  mv "$1.new" "$1"
}
