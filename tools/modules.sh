#!/usr/bin/env bash
# modules.sh: prints the folder of every module of the workspace, one a line.
set -euo pipefail
cd "$(dirname "$0")/.."
sed -n 's#^[[:space:]]*\./\([^[:space:]]*\)[[:space:]]*$#\1#p' go.work
