#!/bin/sh
# boot.sh FOLDER COMMAND: becomes systemd, as the first process of PID, mount and cgroup namespaces.
# FOLDER has the units of the administrator (etc) and of packages (lib), /run (run) and /var/lib (var).
# This shell runs COMMAND before systemd.
set -eu
folder=$1
mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$folder/run" /run
mount --bind "$folder/var" /var/lib
mount --bind "$folder/etc" /etc/systemd/system
mount --bind "$folder/lib" /usr/lib/systemd/system
mount -t tmpfs none /usr/lib/systemd/system-generators
# Show systemd only its own cgroup, without controllers and without hierarchies in which it would
# leave groups.
cmdline=
if [ -d /sys/fs/cgroup/systemd ]; then
  mount --bind /dev/null /proc/cgroups
  cmdline=systemd.legacy_systemd_cgroup_controller
  mount -t tmpfs none /sys/fs/cgroup
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd
else
  mount -t cgroup2 none /sys/fs/cgroup
fi
eval "${2:-}"
exec env -i container=other SYSTEMD_PROC_CMDLINE="$cmdline" PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --unit=multi-user.target --show-status=no --log-target=console
