package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/pkg/cause"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
}

func link(t *testing.T, target, path string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.Symlink(target, path))
}

// fakeHeaders makes headers as Ubuntu has them: one folder, and a link from the modules.
func fakeHeaders(t *testing.T, root, release, compiler string) {
	t.Helper()
	dir := root + "/usr/src/linux-headers-" + release
	write(t, dir+"/Makefile", "all:\n")
	write(t, dir+"/.config", "CONFIG_CC_VERSION_TEXT=\""+compiler+"\"\nCONFIG_MODULE_SIG_HASH=\"sha256\"\n")
	write(t, dir+"/scripts/Makefile.build", "")
	write(t, dir+"/include/linux/module.h", "")
	write(t, dir+"/include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n")
}

func TestHeadersAreFoundWhereDistributionsHaveThem(t *testing.T) {
	const release = "6.1.0-1-amd64"
	for name, test := range map[string]struct {
		make          func(t *testing.T, root, store string)
		build, source string
		want          cause.Code
	}{
		"Ubuntu": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc-12")
			link(t, "/usr/src/linux-headers-"+release, root+"/lib/modules/"+release+"/build")
		}, build: "usr/src/linux-headers-" + release},
		"without the folder of modules": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc-12")
		}, build: "usr/src/linux-headers-" + release},
		"Red Hat": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc")
			assert.NilError(t, os.MkdirAll(root+"/usr/src/kernels", 0o755))
			assert.NilError(t, os.Rename(root+"/usr/src/linux-headers-"+release, root+"/usr/src/kernels/"+release))
		}, build: "usr/src/kernels/" + release},
		"Debian, in two folders": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc-12")
			common := root + "/usr/src/linux-headers-common"
			write(t, common+"/Makefile", "all:\n")
			write(t, common+"/include/linux/module.h", "")
			write(t, root+"/usr/lib/linux-kbuild-6.1/scripts/Makefile.build", "")
			link(t, "../../lib/linux-kbuild-6.1/scripts", common+"/scripts")
			write(t, root+"/usr/src/linux-headers-"+release+"/Makefile", "include /usr/src/linux-headers-common/Makefile\n")
		}, build: "usr/src/linux-headers-" + release, source: "usr/src/linux-headers-common"},
		"in the store": {make: func(t *testing.T, _, store string) {
			fakeHeaders(t, store+"/headers/"+release, release, "gcc-12")
		}, build: "store"},
		"nowhere": {make: func(*testing.T, string, string) {}, want: cause.KernelHeadersMissing},
		"a link to nothing": {make: func(t *testing.T, root, _ string) {
			link(t, "/usr/src/gone", root+"/lib/modules/"+release+"/build")
		}, want: cause.KernelHeadersMissing},
		"of another kernel": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc-12")
			write(t, root+"/usr/src/linux-headers-"+release+"/include/generated/utsrelease.h", "#define UTS_RELEASE \"6.1.0-2-amd64\"\n")
		}, want: cause.KernelHeadersMismatch},
		"without a part of them": {make: func(t *testing.T, root, _ string) {
			fakeHeaders(t, root, release, "gcc-12")
			assert.NilError(t, os.RemoveAll(root+"/usr/src/linux-headers-"+release+"/scripts"))
		}, want: cause.KernelHeadersMismatch},
	} {
		root, store := t.TempDir(), t.TempDir()
		test.make(t, root, store)
		h, err := build.Places{Root: root, Store: store}.Headers(release)
		if code(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
		if test.want != "" {
			continue
		}
		if test.source == "" {
			test.source = test.build
		}
		if test.build == "store" {
			if !strings.HasPrefix(h.Build, store) {
				t.Errorf("%s: %+v", name, h)
			}
			continue
		}
		if h.Build != filepath.Join(root, test.build) || h.Source != filepath.Join(root, test.source) || h.SignatureHash != "sha256" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if _, err := (build.Places{Root: t.TempDir()}).Headers("../../etc"); err == nil {
		t.Error("took a path as a release")
	}
}

func TestTheCompilerOfAKernel(t *testing.T) {
	for text, want := range map[string]string{
		"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0":                   "gcc 12.2.0",
		"x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0":   "gcc 13.2.0",
		"gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)":               "gcc 11.4.1",
		"gcc version 8.5.0 20210514 (Red Hat 8.5.0-4) (GCC) ":        "gcc 8.5.0",
		"Ubuntu clang version 14.0.0-1ubuntu1":                       "clang 14.0.0",
		"clang version 18.1.3 (https://github.com/llvm/llvm-project": "clang 18.1.3",
		"cc (Debian 12.2.0-14+deb12u1) 12.2.0":                       "gcc 12.2.0",
		"tcc version 0.9.27":                                         "",
		"":                                                           "",
		"Linux version 6.1.0-54-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP":                   "gcc 12.2.0",
		"Linux version 6.8.0-45-generic (buildd@lcy02-amd64-115) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42) #45-Ubuntu SMP": "gcc 13.2.0",
		"Linux version 4.18.0-553.el8_10.x86_64 (mockbuild@x86-64-02.build) (gcc version 8.5.0 20210514 (Red Hat 8.5.0-22) (GCC)) #1 SMP":                                          "gcc 8.5.0",
		"Linux version 6.6 (a@b) (Debian clang version 16.0.6 (15), Debian LLD 16.0.6) #1":                                                                                         "clang 16.0.6",
	} {
		if got := build.Compiler(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
