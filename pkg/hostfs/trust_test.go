package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

func TestTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
	for name, tc := range map[string]struct {
		change func(folder, file string) error
		want   string
	}{
		"of root":                {func(string, string) error { return nil }, ""},
		"a link to it":           {func(folder, file string) error { return relink(folder, file, "other") }, ""},
		"an absolute link to it": {func(folder, file string) error { return relink(folder, file, "/folder/other") }, ""},
		"a link that climbs":     {func(folder, file string) error { return relink(folder, file, "../../../folder/./other") }, ""},
		"a link of another user": {func(folder, file string) error {
			return errors.Join(relink(folder, file, "other"), os.Lchown(file, 1234, 0))
		}, "file: user 1234 can change it"},
		"a link in a loop":          {func(folder, file string) error { return relink(folder, file, "file") }, "too many symbolic links"},
		"a link to no file":         {func(folder, file string) error { return relink(folder, file, "/other") }, "/other: no such file or directory"},
		"in a folder with sticky":   {func(folder, _ string) error { return os.Chmod(folder, 0o777|os.ModeSticky) }, ""},
		"writable for root's group": {func(_, file string) error { return os.Chmod(file, 0o664) }, ""},
		"writable for a group": {
			func(_, file string) error { return errors.Join(os.Chown(file, 0, 1234), os.Chmod(file, 0o664)) },
			"file: group 1234 can change it, but only root may: chmod g-w ",
		},
		"in a folder for a group": {
			func(folder, _ string) error { return errors.Join(os.Chown(folder, 0, 1234), os.Chmod(folder, 0o775)) },
			"folder: group 1234 can change it",
		},
		"writable for all":                {func(_, file string) error { return os.Chmod(file, 0o646) }, "file: every user can change it, but only root may: chmod o-w "},
		"of another user":                 {func(_, file string) error { return os.Chown(file, 1234, 0) }, "file: user 1234 can change it, but only root may: chown root "},
		"in a folder for all":             {func(folder, _ string) error { return os.Chmod(folder, 0o777) }, "folder: every user can change it"},
		"in a folder of another":          {func(folder, _ string) error { return os.Chown(folder, 1234, 0) }, "folder: user 1234 can change it"},
		"in a root for all":               {func(folder, _ string) error { return os.Chmod(filepath.Dir(folder), 0o777) }, "every user can change it"},
		"missing":                         {func(_, file string) error { return os.Remove(file) }, "no such file or directory"},
		"of who runs sudo":                {func(_, file string) error { return os.Chown(file, 4321, 0) }, ""},
		"for the group of who runs sudo":  {func(_, file string) error { return errors.Join(os.Chown(file, 4321, 5432), os.Chmod(file, 0o664)) }, ""},
		"of others than who runs in sudo": {func(_, file string) error { return os.Chown(file, 1234, 0) }, "user 1234 can change it"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "folder")
			file := filepath.Join(folder, "file")
			assert.NilError(t, errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(file, nil, 0o600), tc.change(folder, file)))
			if strings.Contains(name, "sudo") {
				t.Setenv("SUDO_UID", "4321")
				t.Setenv("SUDO_GID", "5432")
			}
			real, err := hostfs.Trusted(root, "folder/file")
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Trusted() = %s, %v, want %s", real, err, tc.want)
				}
				return
			}
			info, statErr := os.Lstat(real)
			if err := errors.Join(err, statErr); err != nil || !info.Mode().IsRegular() || filepath.Dir(real) != folder {
				t.Errorf("Trusted() = %s, %v", real, err)
			}
		})
	}
}

// relink moves a file to the file other of its folder, and makes a link in its place.
func relink(folder, file, target string) error {
	return errors.Join(os.Rename(file, filepath.Join(folder, "other")), os.Symlink(target, file))
}
