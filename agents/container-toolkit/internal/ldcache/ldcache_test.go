package ldcache_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/ldcache"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/ldso"
	"outrigger.dev/pkg/ldso/ldsotest"
)

const (
	debianDir = "usr/lib/x86_64-linux-gnu"
	loader    = "lib64/ld-linux-x86-64.so.2"
)

// image is the root file system of a container.
type image struct {
	testing.TB
	dir string
}

func newImage(t testing.TB) image {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("this machine has no amd64 processor")
	}
	return image{t, t.TempDir()}
}

func (i image) path(name string) string { return filepath.Join(i.dir, name) }

func (i image) file(name, content string) {
	i.Helper()
	i.must(os.MkdirAll(filepath.Dir(i.path(name)), 0o755))
	i.must(os.WriteFile(i.path(name), []byte(content), 0o644))
}

func (i image) library(name, soname string) {
	i.Helper()
	i.file(name, string(ldsotest.Library(elf.EM_X86_64, soname)))
}

func (i image) link(target, name string) {
	i.Helper()
	i.must(os.MkdirAll(filepath.Dir(i.path(name)), 0o755))
	i.must(os.Symlink(target, i.path(name)))
}

func (i image) must(err error) {
	i.Helper()
	assert.NilError(i, err)
}

// debian is an image like Debian's, with libraries and without a cache.
func (i image) debian() {
	i.file("etc/debian_version", "12.5\n")
	i.link("usr/lib", "lib")
	i.link("usr/lib64", "lib64")
	i.library("usr/"+loader, "ld-linux-x86-64.so.2")
	i.file("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n\n")
	i.file("etc/ld.so.conf.d/libc.conf", "# libc default configuration\n/usr/local/lib\n")
	i.file("etc/ld.so.conf.d/x86_64-linux-gnu.conf", "/usr/local/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n")
	i.file("etc/ld.so.conf.d/.hidden.conf", "/hidden\n")
	i.library("hidden/libhidden.so.1", "libhidden.so.1")
	i.library(debianDir+"/libz.so.1.3", "libz.so.1")
	i.link("libz.so.1.3", debianDir+"/libz.so")
	i.library(debianDir+"/libchain.so.1.2.3", "libchain.so.1")
	i.link("libchain.so.1.2.3", debianDir+"/libchain.so.1.2")
	i.link("libchain.so.1.2", debianDir+"/libchain.so.1")
	i.library(debianDir+"/libnumber.so.9", "libnumber.so.1")
	i.library(debianDir+"/libnumber.so.10", "libnumber.so.1")
	i.library(debianDir+"/libnosoname.so.3", "")
	i.library("usr/local/lib/libz.so.1.2", "libz.so.1")
	i.library(debianDir+"/glibc-hwcaps/x86-64-v3/libz.so.1.3", "libz.so.1")
	i.file(debianDir+"/libtext.so", "INPUT(libz.so)")
	i.link("nowhere.so.1", debianDir+"/libdangling.so.1")
	i.file(debianDir+"/libarm.so.1", string(ldsotest.Library(elf.EM_MIPS, "libarm.so.1")))
}

// driver adds the driver's libraries, which have no links.
func (i image) driver(dir string) {
	i.library(dir+"/libcuda.so.580.95.05", "libcuda.so.1")
	i.library(dir+"/libnvidia-ml.so.580.95.05", "libnvidia-ml.so.1")
	i.library(dir+"/libnvidia-glcore.so.580.95.05", "libnvidia-glcore.so.580.95.05")
}

func (i image) update(folders ...string) []string {
	i.Helper()
	root, err := rootfs.Open(i.dir)
	i.must(err)
	defer root.Close()
	var warnings []string
	i.must(ldcache.Update(root, folders, func(w string) { warnings = append(warnings, w) }))
	return warnings
}

// ldconfig runs the real one with the arguments, in the image's folder.
func (i image) ldconfig(args ...string) string {
	i.Helper()
	out, err := exec.CommandContext(i.Context(), "/sbin/ldconfig", args...).CombinedOutput()
	if err != nil {
		i.Skipf("this machine has no ldconfig that works: %v: %s", err, out)
	}
	return string(out)
}

// cache returns what the loader would find: "name folder-of-hwcaps => path" in its order.
func (i image) cache() []string {
	i.Helper()
	data, err := os.ReadFile(i.path("etc/ld.so.cache"))
	i.must(err)
	entries, err := ldso.Parse(data)
	i.must(err)
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %s %#x => %s", e.Name, e.Folder, e.Flags, e.Path))
	}
	return out
}

// tree returns the files of the image, with the targets of links.
func (i image) tree() map[string]string {
	i.Helper()
	out := map[string]string{}
	i.must(filepath.WalkDir(i.dir, func(p string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(i.dir, p)
		// ldconfig removes links that lead nowhere; we remove nothing of an image.
		if err != nil || name == "etc/ld.so.cache" || strings.HasPrefix(name, "var") || path.Base(name) == "libdangling.so.1" {
			return err
		}
		target, _ := os.Readlink(p)
		out[name] = d.Type().String() + target
		return nil
	}))
	return out
}

// What ldconfig writes is the reference: the same libraries in the same order, and the
// same links.
func TestUpdateEqualsLdconfig(t *testing.T) {
	folders := map[string][]string{
		"a folder that the system searches":       {"/" + debianDir},
		"a folder of ld.so.conf":                  {"/usr/local/lib"},
		"a folder that nobody searches":           {"/opt/driver/lib"},
		"several folders, one by another path":    {"/opt/driver/lib", "/lib/x86_64-linux-gnu", "/opt/second"},
		"a folder that the container has not got": {"/missing"},
	}
	for name, folders := range folders {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cached %v", name, cached), func(t *testing.T) {
				ours, theirs := newImage(t), newImage(t)
				for _, i := range []image{ours, theirs} {
					i.debian()
					if cached {
						i.ldconfig("-X", "-r", i.dir)
						i.ldconfig("-r", i.dir)
					}
					for _, f := range folders {
						if f != "/missing" {
							i.driver(f)
						}
					}
				}
				ours.update(folders...)
				// What ldconfig reads in the container later.
				if conf, err := os.ReadFile(ours.path("etc/ld.so.conf.d/00-nvcr-driver.conf")); err == nil {
					theirs.file("etc/ld.so.conf.d/00-nvcr-driver.conf", string(conf))
				}
				theirs.ldconfig("-r", theirs.dir)
				if d := cmp.Diff(theirs.cache(), ours.cache()); d != "" {
					t.Errorf("the cache differs (-ldconfig +ours):\n%s", d)
				}
				if d := cmp.Diff(theirs.tree(), ours.tree()); d != "" {
					t.Errorf("the files differ (-ldconfig +ours):\n%s", d)
				}
			})
		}
	}
}

// A container that is started again gets the same files.
func TestUpdateIsIdempotent(t *testing.T) {
	i := newImage(t)
	i.debian()
	i.driver("/opt/driver/lib")
	i.update("/opt/driver/lib")
	tree, cache := i.tree(), i.cache()
	before, err := os.Stat(i.path("etc/ld.so.cache"))
	i.must(err)
	for range 3 {
		i.update("/opt/driver/lib")
	}
	if d := cmp.Diff(tree, i.tree()); d != "" {
		t.Errorf("the files grew:\n%s", d)
	}
	if d := cmp.Diff(cache, i.cache()); d != "" {
		t.Errorf("the cache changed:\n%s", d)
	}
	if after, err := os.Stat(i.path("etc/ld.so.cache")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the cache was written again: %v", err)
	}
}

func TestUpdateAfterTheFoldersChanged(t *testing.T) {
	i := newImage(t)
	i.debian()
	i.driver("/opt/driver/lib")
	i.update("/opt/driver/lib")
	i.update("/" + debianDir)
	if _, err := os.Stat(i.path("etc/ld.so.conf.d/00-nvcr-driver.conf")); err == nil {
		t.Error("the file for folders that are no longer added is still there")
	}
}

// An image of before has another version, which is later.
func TestUpdatePrefersTheMountedLibrary(t *testing.T) {
	for name, cached := range map[string]bool{"with a cache": true, "without a cache": false} {
		t.Run(name, func(t *testing.T) {
			i := newImage(t)
			i.debian()
			i.library(debianDir+"/libcuda.so.999.1", "libcuda.so.1")
			i.link("libcuda.so.999.1", debianDir+"/libcuda.so.1")
			if cached {
				i.ldconfig("-r", i.dir)
			}
			i.file(debianDir+"/libcuda.so.580.95.05", "")
			source := filepath.Join(t.TempDir(), "lib")
			i.must(os.WriteFile(source, ldsotest.Library(elf.EM_X86_64, "libcuda.so.1"), 0o644))
			i.must(unix.Mount(source, i.path(debianDir+"/libcuda.so.580.95.05"), "", unix.MS_BIND, ""))
			defer unix.Unmount(i.path(debianDir+"/libcuda.so.580.95.05"), 0)
			i.update("/" + debianDir)
			if got, err := os.Readlink(i.path(debianDir + "/libcuda.so.1")); err != nil || got != "libcuda.so.580.95.05" {
				t.Errorf("libcuda.so.1 leads to %q, %v", got, err)
			}
		})
	}
}

// Folders that ldconfig got as arguments, and folders of old versions of glibc, stay.
func TestUpdateKeepsWhatItDoesNotKnow(t *testing.T) {
	i := newImage(t)
	i.debian()
	i.library("opt/app/libapp.so.1", "libapp.so.1")
	data, err := ldso.Encode([]ldso.Entry{
		{Name: "libapp.so.1", Path: "/opt/app/libapp.so.1", Flags: 0x303},
		{Name: "libz.so.1", Path: "/" + debianDir + "/tls/libz.so.1", Flags: 0x303, Hwcap: 1 << 63},
		{Name: "libgone.so.1", Path: "/gone/libgone.so.1", Flags: 0x303},
		{Name: "libgone.so.1", Path: "/" + debianDir + "/libgone.so.1", Flags: 0x303},
	})
	i.must(err)
	i.file("etc/ld.so.cache", string(data))
	i.must(os.Mkdir(i.path(debianDir+"/tls"), 0o755))
	i.update("/" + debianDir)
	got := strings.Join(i.cache(), "\n")
	for _, want := range []string{"/opt/app/libapp.so.1", debianDir + "/tls/libz.so.1", "=> /lib/x86_64-linux-gnu/libz.so.1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the cache has no %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "libgone") {
		t.Errorf("the cache has a library that does not exist:\n%s", got)
	}
}

func TestUpdateWithoutGlibc(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"musl with its own folders": {
			files: map[string]string{"lib/ld-musl-x86_64.so.1": ""},
			want:  "/lib\n/usr/local/lib\n/usr/lib\n/opt/driver/lib\n",
		},
		"musl with folders of the image": {
			files: map[string]string{"etc/alpine-release": "3.20\n", "etc/ld-musl-x86_64.path": "/lib:/opt/app/lib\n"},
			want:  "/lib:/opt/app/lib\n/opt/driver/lib\n",
		},
		"no loader": {},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImage(t)
			i.driver("/opt/driver/lib")
			for name, content := range c.files {
				i.file(name, content)
			}
			i.update("/opt/driver/lib")
			i.update("/opt/driver/lib")
			got, _ := os.ReadFile(i.path("etc/ld-musl-x86_64.path"))
			if string(got) != c.want {
				t.Errorf("path file = %q, want %q", got, c.want)
			}
			if got, err := os.Readlink(i.path("opt/driver/lib/libcuda.so.1")); err != nil || got != "libcuda.so.580.95.05" {
				t.Errorf("libcuda.so.1 leads to %q, %v", got, err)
			}
			for _, name := range []string{"etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d"} {
				if _, err := os.Stat(i.path(name)); err == nil {
					t.Errorf("%s was created", name)
				}
			}
		})
	}
}

func TestUpdateOfAReadOnlyFileSystemWarns(t *testing.T) {
	i := newImage(t)
	i.debian()
	i.driver("/opt/driver/lib")
	i.must(unix.Mount(i.dir, i.dir, "", unix.MS_BIND, ""))
	defer unix.Unmount(i.dir, unix.MNT_DETACH)
	i.must(unix.Mount("", i.dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	warnings := i.update("/opt/driver/lib")
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "read-only file system") }) {
		t.Errorf("warnings = %q", warnings)
	}
}

// A program that is linked dynamically finds a library through the cache only.
func TestAProgramFindsALibraryByTheCache(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("this machine has no gcc")
	}
	i := newImage(t)
	i.file("etc/debian_version", "12\n")
	for _, name := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"} {
		data, err := os.ReadFile(name)
		i.must(err)
		i.file(name, string(data))
		i.must(os.Chmod(i.path(name), 0o755))
	}
	source := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), gcc, args...)
		cmd.Dir = source
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	i.must(os.WriteFile(filepath.Join(source, "lib.c"), []byte("int answer(void) { return 42; }"), 0o600))
	i.must(os.WriteFile(filepath.Join(source, "main.c"), []byte("int answer(void); int main(void) { return answer(); }"), 0o600))
	i.must(os.MkdirAll(i.path("opt/driver/lib"), 0o755))
	run("-shared", "-fPIC", "-Wl,-soname,libanswer.so.1", "-o", i.path("opt/driver/lib/libanswer.so.580"), "lib.c")
	run("-o", i.path("main"), "main.c", i.path("opt/driver/lib/libanswer.so.580"))
	start := func() int {
		cmd := exec.CommandContext(t.Context(), "/main")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.dir}
		cmd.Dir = "/"
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	}
	if got := start(); got == 42 {
		t.Fatal("the program finds the library without a cache")
	}
	i.update("/opt/driver/lib")
	if got := start(); got != 42 {
		t.Errorf("exit code = %d, want 42: %s", got, i.ldconfig("-p", "-C", i.path("etc/ld.so.cache")))
	}
	if out := i.ldconfig("-p", "-C", i.path("etc/ld.so.cache")); !strings.Contains(out, "libanswer.so.1 (libc6,x86-64) => /opt/driver/lib/libanswer.so.1") {
		t.Errorf("ldconfig -p:\n%s", out)
	}
}

// FuzzUpdate checks that no cache and no ld.so.conf of an image makes Update panic, or
// write something that ldconfig does not accept.
func FuzzUpdate(f *testing.F) {
	seed, err := ldso.Encode([]ldso.Entry{{Name: "libapp.so.1", Path: "/opt/app/libapp.so.1", Flags: 0x303}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, "include /etc/ld.so.conf.d/*.conf\n", []byte("\x7fELF"))
	f.Add(seed[:60], "include /etc/ld.so.conf\n/opt/../../etc\nhwcap 1 x\n", ldsotest.Library(elf.EM_X86_64, "../../libx.so"))
	f.Add([]byte{}, "include [\ninclude *\n", ldsotest.Library(elf.EM_386, "libx.so.1"))
	f.Fuzz(func(t *testing.T, cache []byte, conf string, library []byte) {
		i := newImage(t)
		i.file(loader, "")
		i.file("etc/ld.so.cache", string(cache))
		i.file("etc/ld.so.conf", conf)
		i.file("usr/lib64/libx.so.1.2", string(library))
		i.update("/usr/lib64")
		data, err := os.ReadFile(i.path("etc/ld.so.cache"))
		i.must(err)
		if _, err := ldso.Parse(data); err != nil {
			t.Errorf("the cache that was written: %v", err)
		}
		i.update("/usr/lib64")
		if again, err := os.ReadFile(i.path("etc/ld.so.cache")); err != nil || !bytes.Equal(again, data) {
			t.Errorf("the second cache differs: %v", err)
		}
	})
}
