#!/bin/sh
# Adds the runtime to Docker's config if it is missing there.
set -e
nvidia-ctk --quiet runtime configure --runtime=docker
echo "nvidia-docker2: the runtime nvidia is in /etc/docker/daemon.json; to load it: systemctl restart docker"
