#!/bin/sh
# Takes the runtime out of Docker's config. dpkg calls this script with "remove" or "upgrade",
# rpm with the number of versions that remain.
set -e
case ${1:-} in upgrade | [1-9]*) exit 0 ;; esac
nvidia-ctk --quiet runtime unconfigure --runtime=docker
