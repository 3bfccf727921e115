package devcgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/mountinfo"
)

// Find returns the cgroup that the kernel uses to check the devices of process pid. proc is the folder
// of the host's /proc.
//
// Find reads the cgroup of the process, so it works with the cgroup drivers systemd and cgroupfs.
// If a hierarchy of version 1 has the devices controller, it decides. Otherwise version 2 decides.
// This covers hosts that mount both versions.
func Find(proc string, pid int) (Cgroup, error) {
	file := filepath.Join(proc, strconv.Itoa(pid), "cgroup")
	data, err := os.ReadFile(file)
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	version, member := membership(data)
	if version == 0 {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %s has no cgroup for devices", pid, file)
	}
	mounts, err := mountinfo.Read(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	dir, err := folder(hierarchy(mounts, version), member)
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: version %d, %s: %w", pid, version, member, err)
	}
	return Cgroup{Version: version, Path: dir, Unit: unitOf(dir)}, nil
}

// membership parses /proc/PID/cgroup. It returns the version of the hierarchy that decides about
// devices, and the cgroup of the process in it. The version is 0 if no hierarchy decides about
// devices.
func membership(data []byte) (version int, member string) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		// hierarchy-ID:controllers:path
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if slices.Contains(strings.Split(fields[1], ","), "devices") {
			return 1, fields[2]
		}
		if fields[0] == "0" && fields[1] == "" {
			version, member = 2, fields[2]
		}
	}
	return version, member
}

// hierarchy returns the mounts of the hierarchy that decides about devices.
func hierarchy(mounts []mountinfo.Mount, version int) []mountinfo.Mount {
	return slices.DeleteFunc(mounts, func(m mountinfo.Mount) bool {
		if version == 2 {
			return m.Type != "cgroup2"
		}
		return m.Type != "cgroup" || !slices.Contains(strings.Split(m.Super, ","), "devices")
	})
}

var errOutside = errors.New("the process is outside of the cgroup namespace of this program: run the program in the container engine's cgroup namespace")

// folder returns the folder of a cgroup below the mount that contains it.
func folder(mounts []mountinfo.Mount, member string) (string, error) {
	if member == "/.." || strings.HasPrefix(member, "/../") {
		return "", errOutside
	}
	if len(mounts) == 0 {
		return "", errors.New("the hierarchy is not mounted (mount it below /sys/fs/cgroup)")
	}
	for _, m := range mounts {
		if rest, ok := below(m.Root, member); ok {
			return path.Join(m.Point, rest), nil
		}
	}
	return "", fmt.Errorf("no mount has this cgroup; %s is mounted at %s", mounts[0].Root, mounts[0].Point)
}

// below returns the path of the cgroup member relative to root.
func below(root, member string) (string, bool) {
	if root == "/" {
		return member, true
	}
	rest, ok := strings.CutPrefix(member, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}
