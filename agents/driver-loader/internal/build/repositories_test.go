package build_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/pkg/cause"
)

const wanted = "6.1.0-1-amd64"

// deb writes a package with the files of a folder into a repository.
func deb(t *testing.T, repository, name, depends string, fill func(root string)) {
	t.Helper()
	root := t.TempDir()
	write(t, root+"/DEBIAN/control", "Package: "+name+"\nVersion: 6.1.1-1\nArchitecture: all\nMaintainer: Tests <t@example.com>\nDescription: headers\n"+depends)
	assert.NilError(t, os.Chmod(root+"/DEBIAN", 0o755))
	fill(root)
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", root, filepath.Join(repository, name+".deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// repository makes a repository with the headers of a kernel in the form of Debian, and
// returns its folder.
func repository(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"apt-get", "dpkg-deb", "dpkg-scanpackages"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("this machine has no " + program)
		}
	}
	dir := t.TempDir()
	deb(t, dir, "linux-headers-"+wanted, "Depends: linux-headers-6.1.0-1-common (= 6.1.1-1), linux-kbuild-6.1 (>= 6.1.1), linux-compiler-gcc-12-x86 | gcc\n", func(root string) {
		fakeHeaders(t, root, wanted, "gcc-12")
		write(t, root+"/usr/src/linux-headers-"+wanted+"/Makefile", "include /usr/src/linux-headers-6.1.0-1-common/Makefile\n")
	})
	deb(t, dir, "linux-headers-6.1.0-1-common", "", func(root string) {
		write(t, root+"/usr/src/linux-headers-6.1.0-1-common/Makefile", "all:\n")
		write(t, root+"/usr/src/linux-headers-6.1.0-1-common/include/linux/module.h", strings.Repeat("\n", 1<<20))
		link(t, "../../lib/linux-kbuild-6.1/scripts", root+"/usr/src/linux-headers-6.1.0-1-common/scripts")
	})
	deb(t, dir, "linux-kbuild-6.1", "", func(root string) {
		write(t, root+"/usr/lib/linux-kbuild-6.1/scripts/Makefile.build", "")
	})
	scan := exec.CommandContext(t.Context(), "dpkg-scanpackages", "--multiversion", ".")
	scan.Dir = dir
	index, err := scan.Output()
	assert.NilError(t, err)
	write(t, dir+"/Packages", string(index))
	return dir
}

// etc returns a folder with the configuration of apt, as driver.repoConfig is mounted.
func etc(t *testing.T, uri string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/apt/sources.list.d/custom.list", "deb [trusted=yes] "+uri+" ./\n")
	return dir
}

func TestHeadersAreFetchedFromARepository(t *testing.T) {
	b := newBuilder(t, t.TempDir())
	b.Repositories = &build.Repositories{Etc: etc(t, "file:"+repository(t))}
	to := b.Places.Store + "/headers/" + wanted
	assert.NilError(t, b.Repositories.Fetch(t.Context(), wanted, to))
	h, err := b.Places.Headers(wanted)
	if err != nil || h.Build != to+"/usr/src/linux-headers-"+wanted || h.Source != to+"/usr/src/linux-headers-6.1.0-1-common" {
		t.Errorf("%+v, %v", h, err)
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != 1 || entries[0].Name() != "usr" {
		t.Errorf("%v, %v", entries, err)
	}
}

// On a node without the internet, those of the image stay beside that of the operator.
func TestHeadersAreFetchedAlthoughAnotherRepositoryDoesNotAnswer(t *testing.T) {
	folder := etc(t, "file:"+repository(t))
	write(t, folder+"/apt/sources.list", "deb http://127.0.0.1:1/ubuntu jammy main\n")
	b := newBuilder(t, t.TempDir())
	b.Repositories = &build.Repositories{Etc: folder, Timeout: time.Second}
	assert.NilError(t, b.Repositories.Fetch(t.Context(), wanted, b.Places.Store+"/headers/"+wanted))
	if _, err := b.Places.Headers(wanted); err != nil {
		t.Error(err)
	}
}

// silent returns an address that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestARepositoryThatDoesNotHelpIsNamed(t *testing.T) {
	dir := repository(t)
	without := t.TempDir()
	write(t, without+"/Packages", "")
	damaged := t.TempDir()
	index, err := os.ReadFile(dir + "/Packages")
	assert.NilError(t, err)
	write(t, damaged+"/Packages", string(index))
	for _, name := range []string{"linux-headers-" + wanted, "linux-headers-6.1.0-1-common", "linux-kbuild-6.1"} {
		write(t, damaged+"/"+name+".deb", "not the package\n")
	}
	for name, test := range map[string]struct {
		uri  string
		want cause.Code
		says string
	}{
		"it refuses connections":            {"http://127.0.0.1:1/", cause.RepositoryUnavailable, "127.0.0.1"},
		"it does not answer":                {"http://" + silent(t) + "/", cause.RepositoryUnavailable, "127.0.0.1"},
		"it is not there":                   {"file:" + dir + "x", cause.RepositoryUnavailable, "x"},
		"it does not have the package":      {"file:" + without, cause.KernelHeadersMissing, "linux-headers-" + wanted},
		"its packages are not those listed": {"file:" + damaged, cause.RepositoryUnavailable, "Hash Sum mismatch"},
	} {
		b := newBuilder(t, t.TempDir())
		b.Repositories = &build.Repositories{Etc: etc(t, test.uri), Timeout: time.Second}
		r := build.Request{Release: wanted, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: "open"}
		_, err := b.Build(t.Context(), r)
		if code(err) != test.want || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "on the node:") {
			t.Errorf("%s: %v", name, err)
		}
		for _, left := range []string{"headers/[^.]*", "headers/.new-*", "modules/*", "build/.new-*"} {
			if found, err := filepath.Glob(filepath.Join(b.Places.Store, left)); err != nil || len(found) > 0 {
				t.Errorf("%s: left %v, %v", name, found, err)
			}
		}
	}
}

func TestHeadersOfAnotherKernelOnTheNodeAreNamedToo(t *testing.T) {
	root := t.TempDir()
	fakeHeaders(t, root, "6.1.0-2-amd64", "gcc-12")
	link(t, "/usr/src/linux-headers-6.1.0-2-amd64", root+"/lib/modules/"+wanted+"/build")
	b := newBuilder(t, root)
	b.Repositories = &build.Repositories{Etc: etc(t, "file:/not/there"), Timeout: time.Second}
	r := build.Request{Release: wanted, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: "open"}
	if _, err := b.Build(t.Context(), r); code(err) != cause.RepositoryUnavailable || !strings.Contains(err.Error(), "on the node: ") || !strings.Contains(err.Error(), "the headers are not of the kernel "+wanted) {
		t.Error(err)
	}
}

func TestAFullDiskWhileHeadersAreFetchedIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for a tmpfs")
	}
	dir := repository(t)
	store := t.TempDir()
	if err := unix.Mount("none", store, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip("this machine has no tmpfs to mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r := build.Repositories{Etc: etc(t, "file:"+dir)}
	if err := r.Fetch(t.Context(), wanted, store+"/headers/"+wanted); code(err) != cause.NoSpace {
		t.Error(err)
	}
	if left, err := filepath.Glob(store + "/headers/[^.]*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
