package mps

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// checkPropagation returns an error if dir is in a container that keeps to itself what is
// mounted below dir: neither the host nor other containers would see the daemons' folders.
func checkPropagation(dir string) error {
	contained, err := inContainer()
	if err != nil || !contained {
		return err
	}
	passedOn, err := passesMountsOn(dir)
	if err != nil || passedOn {
		return err
	}
	return fmt.Errorf("MPS root %s keeps mounts in this container, and the containers of clients would not find the daemons: "+
		"mount the host's folder there with mountPropagation Bidirectional (docker run -v %[1]s:%[1]s:rshared)", dir)
}

// inContainer reports whether this process has other mounts than the first process of the
// node has, or is the first one of its container.
func inContainer() (bool, error) {
	own, errOwn := os.ReadFile("/proc/self/mountinfo")
	first, errFirst := os.ReadFile("/proc/1/mountinfo")
	if err := errors.Join(errOwn, errFirst); err != nil {
		return false, fmt.Errorf("compare mounts with the host: %w", err)
	}
	// No two mount namespaces have the same first mount.
	idOwn, _, _ := strings.Cut(string(own), " ")
	idFirst, _, _ := strings.Cut(string(first), " ")
	return os.Getpid() == 1 || idOwn != idFirst, nil
}

// passesMountsOn reports whether the mount that dir is on is shared: other mount namespaces
// see what is mounted on it.
func passesMountsOn(dir string) (bool, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("find mount of %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(fd) }() // it was not written to
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return false, fmt.Errorf("find mount of %s: %w", dir, err)
	}
	_, rest, _ := strings.Cut(string(info), "mnt_id:")
	id, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("find mount of %s: %w", dir, err)
	}
	for line := range strings.Lines(string(mounts)) {
		// The optional fields are the seventh up to "-" (proc_pid_mountinfo(5)).
		fields := strings.Fields(line)
		if end := slices.Index(fields, "-"); end >= 6 && fields[0] == id {
			return slices.ContainsFunc(fields[6:end], func(f string) bool { return strings.HasPrefix(f, "shared:") }), nil
		}
	}
	return false, fmt.Errorf("find mount of %s: no mount has the number %q", dir, id)
}
