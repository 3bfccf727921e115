package mps

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/mountinfo"
)

// checkPropagation returns an error if dir is in a container that does not propagate mounts
// below dir. Then neither the host nor other containers would see the daemons' folders.
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
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // the kubelet sets the variable in each pod
		option = fmt.Sprintf("docker run -v %[1]s:%[1]s:rshared", dir)
	}
	return fmt.Errorf("mounts below MPS root %s stay in this container, so the containers of clients cannot find the daemons: "+
		"mount the host's folder there with %s", dir, option)
}

// inContainer reports whether this process is the first process (PID 1), or has other mounts
// than the first process.
func inContainer() (bool, error) {
	own, errOwn := os.ReadFile("/proc/self/mountinfo")
	first, errFirst := os.ReadFile("/proc/1/mountinfo")
	if err := errors.Join(errOwn, errFirst); err != nil {
		return false, fmt.Errorf("compare mounts with the host: %w", err)
	}
	// Different mount namespaces have different first mounts.
	idOwn, _, _ := strings.Cut(string(own), " ")
	idFirst, _, _ := strings.Cut(string(first), " ")
	return os.Getpid() == 1 || idOwn != idFirst, nil
}

// onSharedMount reports whether dir is on a shared mount, so that other mount namespaces see
// the mounts below it.
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
