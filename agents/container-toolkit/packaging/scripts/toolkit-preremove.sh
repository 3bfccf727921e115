#!/bin/sh
# Stops the units. dpkg calls this script with "remove" or "upgrade", rpm with the number of
# versions that remain: on an upgrade, the units keep running.
set -e
case ${1:-} in upgrade | [1-9]*) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service
