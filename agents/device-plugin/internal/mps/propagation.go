package mps

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/mountinfo"
)

// checkPropagation returns an error if dir is in a container that keeps to itself what is
// mounted below dir: neither the host nor other containers would see the daemons' folders.
func checkPropagation(dir string) error {
	contained, err := inContainer()
	if err != nil || !contained {
		return err
	}
	passedOn, err := onSharedMount(dir)
	if err != nil || passedOn {
		return err
	}
	option := "mountPropagation Bidirectional"
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // the kubelet sets it
		option = fmt.Sprintf("docker run -v %[1]s:%[1]s:rshared", dir)
	}
	return fmt.Errorf("MPS root %s keeps mounts in this container, and the containers of clients would not find the daemons: "+
		"mount the host's folder there with %s", dir, option)
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
func onSharedMount(dir string) (bool, error) {
	f, err := os.OpenFile(dir, unix.O_PATH, 0)
	if err != nil {
		return false, fmt.Errorf("find mount of %s: %w", dir, err)
	}
	defer f.Close()
	id, err := mountinfo.Of(f)
	if err != nil {
		return false, err
	}
	m, err := mountinfo.ByID(id)
	if err != nil {
		return false, fmt.Errorf("find mount of %s: %w", dir, err)
	}
	return m.Shared, nil
}
