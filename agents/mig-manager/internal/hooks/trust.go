package hooks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"outrigger.dev/pkg/hostfs"
)

// maxFile is the largest size of a hooks file, in bytes.
const maxFile = 1 << 20

// ReadFile reads the hooks file at a path. It rejects a file that other users can change or replace.
// Trusted users are root, the user of this process and the user who runs it with sudo, with their
// groups.
func ReadFile(path string) (File, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, err
	}
	// Check all folders of the path, so that other users cannot replace the file after the check.
	for at := real; ; at = filepath.Dir(at) {
		if err := checkTrusted(at); err != nil {
			return nil, err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	data, err := hostfs.ReadFile(real, maxFile)
	if err != nil {
		return nil, err
	}
	return Read(path, data)
}

// checkTrusted returns an error for a file or a folder that other users can change.
func checkTrusted(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("read the owner of " + path + ": no such information")
	}
	owner, group := int(stat.Uid), int(stat.Gid)
	// In a folder with the sticky bit, such as /tmp, users can add files, but can rename or remove
	// only their own files. Files of trusted users stay, unless another user owns the folder.
	shared := !info.IsDir() || info.Mode()&fs.ModeSticky == 0
	switch {
	case owner != 0 && owner != os.Geteuid() && strconv.Itoa(owner) != os.Getenv("SUDO_UID"):
		return fmt.Errorf("%s: user %d can change it, and so run programs as root: chown root %[1]s", path, owner)
	case shared && info.Mode()&0o020 != 0 && group != 0 && group != os.Getegid() && strconv.Itoa(group) != os.Getenv("SUDO_GID"):
		return fmt.Errorf("%s: group %d can change it, and so run programs as root: chmod g-w %[1]s", path, group)
	case shared && info.Mode()&0o002 != 0:
		return fmt.Errorf("%s: every user can change it, and so run programs as root: chmod o-w %[1]s", path)
	}
	return nil
}
