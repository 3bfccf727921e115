package devcgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// allowByFile writes a rule for each device to the file devices.allow of a cgroup. The kernel
// accepts one rule per write.
func allowByFile(file string, devices []Device) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, d := range devices {
		rule := fmt.Sprintf("c %d:%d rw", d.Major, d.Minor)
		_, err := f.WriteString(rule)
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("write %q: %w (the cgroup above it does not allow the device: allow it there, for example for the pod or the Docker daemon)", rule, err)
		}
		if err != nil {
			return fmt.Errorf("write %q: %w", rule, err)
		}
	}
	return nil
}
