package kernel_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/kernel"
)

// node writes the files of a node and returns its roots.
func node(t *testing.T, files map[string]string) kernel.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return kernel.Root{Proc: dir + "/proc", Sys: dir + "/sys", Modules: dir + "/lib/modules", Dev: dir + "/dev"}
}

const release = "6.1.0-56-cloud-amd64"

func TestObserve(t *testing.T) {
	sample, err := os.ReadFile("../module/testdata/sample.ko.xz")
	assert.NilError(t, err)
	on := true
	full := map[string]string{
		"proc/sys/kernel/osrelease":                release + "\n",
		"proc/sys/kernel/arch":                     "aarch64\n",
		"proc/version":                             "Linux version 6.1.0-56-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP\n",
		"proc/keys":                                "3a3cca9f I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 2\n1fa63a31 I------     1 perm 1f030000     0     0 asymmetri Debian Secure Boot CA: 6ccece7e4c6c0d1f: X509.rsa 4c6c0d1f []\n2fa63a31 I------     1 perm 1f030000     0     0 asymmetri O: with: colons: 00ab: X509.rsa 00ab []\n",
		"sys/kernel/security/lockdown":             "none [integrity] confidentiality\n",
		"sys/module/module/parameters/sig_enforce": "Y\n",
		"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\x00\x00\x00\x01",
		"lib/modules/" + release + "/modules.dep":                                  "updates/dkms/other.ko:\nkernel/gone.ko:\n../../x:\nkernel/sample.ko.xz: kernel/gone.ko\n",
		"lib/modules/" + release + "/kernel/sample.ko.xz":                          string(sample),
	}
	want := kernel.Kernel{
		Release: release, Machine: "aarch64", Banner: strings.TrimSpace(full["proc/version"]),
		Lockdown: "integrity", SigEnforce: true, SecureBoot: &on,
		Vermagic: release + " SMP preempt mod_unload modversions",
		Keys:     []kernel.Key{{Name: "Debian Secure Boot CA", ID: "6ccece7e4c6c0d1f"}, {Name: "O: with: colons", ID: "00ab"}},
	}
	got, err := kernel.Observe(node(t, full))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	// Nothing but the release is needed.
	got, err = kernel.Observe(node(t, map[string]string{"proc/sys/kernel/osrelease": "6.8.0\n"}))
	if err != nil || got.Release != "6.8.0" || got.SecureBoot != nil || got.Keys != nil || runtime.GOARCH == "amd64" && got.Machine != "x86_64" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestObserveOddFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		check         func(kernel.Kernel) bool
	}{
		"keys of the user alone":  {"proc/keys", "1fa63a31 I------     1 perm 1f030000     0     0 asymmetri A: 6c: X509.rsa 6c []\n", func(k kernel.Kernel) bool { return k.Keys == nil }},
		"keyrings without keys":   {"proc/keys", "3a3cca9f I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: empty\n", func(k kernel.Kernel) bool { return k.Keys != nil && len(k.Keys) == 0 }},
		"Secure Boot off":         {"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\x06\x00\x00\x00\x00", func(k kernel.Kernel) bool { return k.SecureBoot != nil && !*k.SecureBoot }},
		"a lockdown of no mode":   {"sys/kernel/security/lockdown", "none integrity", func(k kernel.Kernel) bool { return k.Lockdown == "" }},
		"no module of the kernel": {"lib/modules/" + release + "/modules.dep", "kernel/a.ko:\n", func(k kernel.Kernel) bool { return k.Vermagic == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Observe(node(t, map[string]string{"proc/sys/kernel/osrelease": release, tc.file: tc.content}))
			if err != nil || !tc.check(k) {
				t.Errorf("%+v, %v", k, err)
			}
		})
	}
	if _, err := kernel.Observe(node(t, nil)); err == nil {
		t.Error("a node without a kernel has a release")
	}
	if _, err := kernel.Observe(node(t, map[string]string{"proc/sys/kernel/osrelease": "../../etc"})); err == nil {
		t.Error("a path is a release")
	}
}

func TestModules(t *testing.T) {
	root := node(t, map[string]string{
		"sys/module/nvidia/initstate":                          "live\n",
		"sys/module/nvidia/refcnt":                             "3\n",
		"sys/module/nvidia/version":                            "580.95.05\n",
		"sys/module/nvidia/srcversion":                         "ABC\n",
		"sys/module/nvidia/taint":                              "OE\n",
		"sys/module/nvidia/holders/nvidia_uvm/initstate":       "live\n",
		"sys/module/nvidia/holders/nvidia_modeset/initstate":   "live\n",
		"sys/module/nvidia/parameters/NVreg_EnableGpuFirmware": "18\n",
		"sys/module/simple/initstate":                          "going\n",
		"sys/module/builtin/parameters/x":                      "1\n",
	})
	got, err := kernel.Modules(root)
	want := map[string]kernel.Loaded{
		"nvidia": {
			Name: "nvidia", Version: "580.95.05", SrcVersion: "ABC", State: "live", RefCount: 3, Taint: "OE",
			Holders: []string{"nvidia_modeset", "nvidia_uvm"}, Params: map[string]string{"NVreg_EnableGpuFirmware": "18"},
		},
		"simple": {Name: "simple", State: "going", RefCount: -1, Params: map[string]string{}},
	}
	if err != nil || !maps.EqualFunc(got, want, func(a, b kernel.Loaded) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	if _, err := kernel.Modules(node(t, nil)); err == nil {
		t.Error("a node without sysfs has modules")
	}
}
