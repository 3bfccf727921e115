package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/mountinfo"
)

// UnmountBelow unmounts everything in the folder, so that removing the folder does not
// remove mounted files.
func UnmountBelow(dir string) error {
	mounts, err := mountinfo.Read(mountinfo.Self)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(mounts) {
		if !strings.HasPrefix(m.Point, dir+"/") {
			continue
		}
		if err := unix.Unmount(m.Point, unix.MNT_DETACH); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Point, err))
		}
	}
	return errors.Join(errs...)
}
