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

// maxFile bounds a hooks file.
const maxFile = 1 << 20

// ReadFile is Read for the file at a path. It rejects one that others than root, the user of this
// process and the user who runs it with sudo can change or replace, or another group than theirs.
func ReadFile(path string) (File, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, err
	}
	// What is checked cannot be replaced after it.
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

// checkTrusted returns an error for a file or a folder that others can change.
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
	// Whoever may write to a folder with the sticky bit, such as /tmp, can add files, and can rename or
	// remove only their own: what root or this user owns in it stays. Its owner could remove all.
	shared := !info.IsDir() || info.Mode()&fs.ModeSticky == 0
	switch {
	case owner != 0 && owner != os.Geteuid() && strconv.Itoa(owner) != os.Getenv("SUDO_UID"):
		return fmt.Errorf("%s: user %d can change it, and root runs what it says: chown root %[1]s", path, owner)
	case shared && info.Mode()&0o020 != 0 && group != 0 && group != os.Getegid() && strconv.Itoa(group) != os.Getenv("SUDO_GID"):
		return fmt.Errorf("%s: group %d can change it, and root runs what it says: chmod g-w %[1]s", path, group)
	case shared && info.Mode()&0o002 != 0:
		return fmt.Errorf("%s: everyone can change it, and root runs what it says: chmod o-w %[1]s", path)
	}
	return nil
}
