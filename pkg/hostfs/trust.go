package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is the largest number of symbolic links in a path, as in the kernel.
const maxLinks = 40

// Trusted returns the path of a file or folder below root, with symbolic links resolved. It returns
// an error if other users can change the file, or any folder or link on its path: they could then
// choose the file that a program opens as root. An absolute link is relative to root, and no link
// leaves root. Trusted does not check the folders above root.
//
// Trusted users are root, the user of this process and the user who runs it with sudo, with their
// groups. A caller that opens the returned path opens the file that Trusted checked, unless a
// trusted user replaces it.
func Trusted(root, path string) (string, error) {
	at := "/"
	rest := strings.Split(filepath.Clean("/"+path), "/")
	if err := checkTrusted(root); err != nil {
		return "", err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name)
		full := filepath.Join(root, next)
		if err := checkTrusted(full); err != nil {
			return "", err
		}
		target, err := os.Readlink(full)
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", filepath.Join(root, path))
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(root, at), nil
}

// checkTrusted returns an error for a file, a folder or a link that other users can change.
func checkTrusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("read the owner of " + path + ": no such information")
	}
	owner, group, mode := int(stat.Uid), int(stat.Gid), info.Mode()
	// Permissions of a link have no meaning. In a folder with the sticky bit, such as /tmp, users can
	// add files, but can rename or remove only their own files. Files of trusted users stay.
	shared := mode&fs.ModeSymlink == 0 && (!info.IsDir() || mode&fs.ModeSticky == 0)
	switch {
	case owner != 0 && owner != os.Geteuid() && strconv.Itoa(owner) != os.Getenv("SUDO_UID"):
		return fmt.Errorf("%s: user %d can change it, but only root may: chown root %[1]s", path, owner)
	case shared && mode&0o020 != 0 && group != 0 && group != os.Getegid() && strconv.Itoa(group) != os.Getenv("SUDO_GID"):
		return fmt.Errorf("%s: group %d can change it, but only root may: chmod g-w %[1]s", path, group)
	case shared && mode&0o002 != 0:
		return fmt.Errorf("%s: every user can change it, but only root may: chmod o-w %[1]s", path)
	}
	return nil
}
