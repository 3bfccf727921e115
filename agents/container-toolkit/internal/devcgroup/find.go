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
)

// Find returns the cgroup in which the kernel checks the devices of process pid. proc
// is the folder of the host's /proc.
//
// It works with the cgroup drivers systemd and cgroupfs alike, because it reads where
// the process is. The controller for devices is in a hierarchy of version 1 if there
// is one, else version 2 decides; this covers hosts that mount both.
func Find(proc string, pid int) (Cgroup, error) {
	file := filepath.Join(proc, strconv.Itoa(pid), "cgroup")
	data, err := os.ReadFile(file)
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	version, member := membership(data)
	if version == 0 {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %s names no cgroup for devices", pid, file)
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	dir, err := folder(parseMounts(mounts, version), member)
	if err != nil {
		return Cgroup{}, fmt.Errorf("find cgroup of process %d: version %d, %s: %w", pid, version, member, err)
	}
	return Cgroup{Version: version, Path: dir, Unit: unitOf(dir)}, nil
}

// membership returns the version of the hierarchy that decides about devices, and the
// cgroup in it, from /proc/PID/cgroup. It returns version 0 if there is none.
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

// mount is a place where a part of the hierarchy is mounted.
type mount struct {
	// root is the cgroup that is mounted at the folder.
	root   string
	folder string
}

// parseMounts returns the mounts of the hierarchy that decides about devices, from
// /proc/self/mountinfo.
func parseMounts(data []byte, version int) []mount {
	var out []mount
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// ID parent major:minor root folder options… - type source super-options
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(super) < 3 {
			continue
		}
		if version == 2 && super[0] == "cgroup2" ||
			version == 1 && super[0] == "cgroup" && slices.Contains(strings.Split(super[2], ","), "devices") {
			out = append(out, mount{root: unescape(fields[3]), folder: unescape(fields[4])})
		}
	}
	return out
}

// unescape undoes how the kernel writes spaces and the like in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

var errOutside = errors.New("the process is outside of the cgroup namespace of this program: run the program in the container engine's cgroup namespace")

// folder returns the folder of a cgroup, by the mount that has it.
func folder(mounts []mount, member string) (string, error) {
	if member == "/.." || strings.HasPrefix(member, "/../") {
		return "", errOutside
	}
	if len(mounts) == 0 {
		return "", errors.New("the hierarchy is not mounted (mount it below /sys/fs/cgroup)")
	}
	for _, m := range mounts {
		if rest, ok := below(m.root, member); ok {
			return path.Join(m.folder, rest), nil
		}
	}
	return "", fmt.Errorf("no mount has this cgroup; %s is mounted at %s", mounts[0].root, mounts[0].folder)
}

// below returns the path of a cgroup relative to one above it.
func below(root, member string) (string, bool) {
	if root == "/" {
		return member, true
	}
	rest, ok := strings.CutPrefix(member, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}
