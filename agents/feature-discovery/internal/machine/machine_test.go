package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/machine"
)

// root creates a root folder with files, and links where the content begins with
// "-> ".
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		err := error(nil)
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		assert.NilError(t, err)
	}
	return dir
}

func TestReadSystem(t *testing.T) {
	kernel, err := exec.CommandContext(t.Context(), "uname", "-r").Output()
	assert.NilError(t, err)
	const etc, lib = "etc/os-release", "usr/lib/os-release"
	for name, c := range map[string]struct {
		files map[string]string
		want  machine.System
		// err is part of the error.
		err string
	}{
		"Ubuntu": {
			files: map[string]string{etc: "-> ../usr/lib/os-release", lib: "NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nID=ubuntu\n"},
			want:  machine.System{ID: "ubuntu", VersionID: "24.04"},
		},
		"Red Hat CoreOS": {
			files: map[string]string{etc: "ID=\"rhcos\"\nVERSION_ID=\"4.18\"\nOSTREE_VERSION=\"418.94.202501\"\n"},
			want:  machine.System{ID: "rhcos", VersionID: "4.18", OSTreeVersion: "418.94.202501"},
		},
		"the file in etc takes precedence": {
			files: map[string]string{etc: "ID=mine\n", lib: "ID=vendor\nVERSION_ID=1\n"},
			want:  machine.System{ID: "mine"},
		},
		"only the vendor's file exists": {
			files: map[string]string{lib: "ID=vendor\nVERSION_ID=1\n"},
			want:  machine.System{ID: "vendor", VersionID: "1"},
		},
		"an absolute link stays below the root": {
			files: map[string]string{etc: "-> /etc/static/os-release", "etc/static/os-release": "ID=nixos\n"},
			want:  machine.System{ID: "nixos"},
		},
		"a link cannot leave the root": {
			files: map[string]string{etc: "-> ../../../../../../../../../etc/hostname"}, err: "below",
		},
		"no file exists": {err: "no such file"},
		"the file is a folder": {
			files: map[string]string{etc + "/x": "", lib: "ID=vendor\n"}, err: "it is a folder",
		},
		"the file is too long": {
			files: map[string]string{etc: "ID=x\n" + strings.Repeat("#", 64<<10)}, err: "larger than 64 KiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := root(t, c.files)
			got, err := machine.ReadSystem(dir)
			c.want.Kernel = strings.TrimSpace(string(kernel))
			if got != c.want {
				t.Errorf("ReadSystem() = %+v, want %+v", got, c.want)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("ReadSystem() error %v, want %q", err, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), dir) {
				t.Errorf("%v does not name the root", err)
			}
		})
	}
}

func TestReadProduct(t *testing.T) {
	dir := root(t, map[string]string{
		"name": " NVIDIA DGX H100 \n", "empty": "\n", "long": strings.Repeat("x", 64<<10+1),
	})
	assert.NilError(t, unix.Mkfifo(dir+"/pipe", 0o600))
	for path, want := range map[string]struct{ product, err string }{
		dir + "/name":                      {product: "NVIDIA DGX H100"},
		dir + "/empty":                     {},
		"":                                 {},
		dir + "/class/dmi/id/product_name": {},
		dir + "/long":                      {err: "/long: it is larger than 64 KiB"},
		dir + "/none":                      {err: "/none: no such file"},
		dir:                                {err: "it is a folder"},
		"/dev/zero":                        {err: "/dev/zero: it is a device"},
		dir + "/pipe":                      {err: "/pipe: it is a named pipe"},
	} {
		got, err := machine.ReadProduct(path)
		if got != want.product || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("ReadProduct(%q) = %q, %v, want %q, error %q", path, got, err, want.product, want.err)
		}
	}
}
