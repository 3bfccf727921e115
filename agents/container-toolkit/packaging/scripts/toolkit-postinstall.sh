#!/bin/sh
# Starts the units that keep the CDI spec up to date. dpkg calls this script with "configure",
# rpm with the number of installed versions.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl enable nvidia-cdi-refresh.path nvidia-cdi-refresh.service
systemctl start nvidia-cdi-refresh.path
# Without a driver the service has nothing to do yet.
systemctl start nvidia-cdi-refresh.service || true
