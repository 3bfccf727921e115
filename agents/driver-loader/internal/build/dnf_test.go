package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/pkg/cause"
)

const redHat = "5.14.0-427.13.1.el9_4.x86_64"

// rpmRepository makes a repository with the headers of a kernel in the form of Red Hat.
func rpmRepository(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"dnf", "rpmbuild", "createrepo_c", "rpm2cpio", "cpio"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("this machine has no " + program)
		}
	}
	dir, files := t.TempDir(), t.TempDir()
	fakeHeaders(t, files, redHat, "gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)")
	write(t, files+"/spec", `Name: kernel-devel
Version: 5.14.0
Release: 427.13.1.el9_4
Summary: headers
License: GPL-2.0
%description
headers
%install
mkdir -p %{buildroot}/usr/src/kernels
cp -r `+files+`/usr/src/linux-headers-`+redHat+` %{buildroot}/usr/src/kernels/`+redHat+`
%files
/usr/src/kernels
`)
	for _, args := range [][]string{
		{"rpmbuild", "-bb", "--quiet", "--define", "_topdir " + t.TempDir(), "--define", "_rpmdir " + dir, "--target", "x86_64", files + "/spec"},
		{"createrepo_c", "--quiet", dir},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// yumEtc returns a folder with the configuration of dnf.
func yumEtc(t *testing.T, uri string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/yum.repos.d/custom.repo", "[custom]\nname=custom\nbaseurl="+uri+"\nenabled=1\ngpgcheck=0\n")
	return dir
}

func TestHeadersOfRedHatAreFetchedFromARepository(t *testing.T) {
	b := newBuilder(t, t.TempDir())
	b.Repositories = &build.Repositories{Etc: yumEtc(t, "file://"+rpmRepository(t)), Manager: "dnf"}
	to := b.Places.Store + "/headers/" + redHat
	assert.NilError(t, b.Repositories.Fetch(t.Context(), redHat, to))
	h, err := b.Places.Headers(redHat)
	if err != nil || h.Build != to+"/usr/src/kernels/"+redHat || build.Compiler(h.Compiler) != "gcc 11.4.1" {
		t.Errorf("%+v, %v", h, err)
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != 1 || entries[0].Name() != "usr" {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestARepositoryOfRedHatThatDoesNotHelpIsNamed(t *testing.T) {
	dir := rpmRepository(t)
	for name, test := range map[string]struct {
		uri, release string
		want         cause.Code
		says         string
	}{
		"it refuses connections":       {"http://127.0.0.1:1/", redHat, cause.RepositoryUnavailable, "127.0.0.1"},
		"it does not answer":           {"http://" + silent(t) + "/", redHat, cause.RepositoryUnavailable, "127.0.0.1"},
		"it is not there":              {"file://" + dir + "x", redHat, cause.RepositoryUnavailable, dir + "x"},
		"it does not have the package": {"file://" + dir, "5.14.0-1.el9.x86_64", cause.KernelHeadersMissing, "kernel-devel-5.14.0-1.el9.x86_64"},
	} {
		store := t.TempDir()
		r := build.Repositories{Etc: yumEtc(t, test.uri), Manager: "dnf", Timeout: time.Second}
		err := r.Fetch(t.Context(), test.release, filepath.Join(store, "headers", test.release))
		if code(err) != test.want || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := filepath.Glob(store + "/headers/[^.]*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}
