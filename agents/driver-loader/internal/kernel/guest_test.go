package kernel_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/check"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/procowner"
)

func TestGuestLoadsAndUnloads(t *testing.T) {
	guest(t)
	vxlan, tunnel, tunnel6 := installed(t, "vxlan"), installed(t, "udp_tunnel"), installed(t, "ip6_udp_tunnel")
	if got := strings.Join(slices.Sorted(slices.Values(vxlan.Depends)), " "); got != "ip6_udp_tunnel udp_tunnel" {
		t.Fatalf("vxlan depends on %q", got)
	}
	expect(t, load(t, vxlan), cause.ModuleDependencyMissing, "vxlan: Unknown symbol", "depends on first")
	for _, m := range []*module.Module{tunnel, tunnel6} {
		assert.NilError(t, load(t, m))
	}
	assert.NilError(t, load(t, vxlan, "udp_port=4789", "log_ecn_error=n"))
	expect(t, load(t, vxlan), cause.ModuleAlreadyLoaded)
	modules, err := kernel.Modules(kernel.Root{})
	assert.NilError(t, err)
	got := modules["vxlan"]
	if got.State != "live" || got.RefCount != 0 || got.Params["udp_port"] != "4789" || got.Params["log_ecn_error"] != "N" || got.SrcVersion != vxlan.SrcVersion {
		t.Errorf("vxlan: %+v", got)
	}
	if used := modules["udp_tunnel"]; used.RefCount != 1 || !slices.Equal(used.Holders, []string{"vxlan"}) {
		t.Errorf("udp_tunnel: %+v", used)
	}
	if _, ok := modules["module"]; ok {
		t.Error("the built-in module is listed")
	}
	expect(t, kernel.Syscalls{}.Unload("udp_tunnel"), cause.ModuleInUse, "in use by the loaded module vxlan", "unload vxlan first")
	for _, name := range []string{"vxlan", "udp_tunnel", "ip6_udp_tunnel"} {
		if err := (kernel.Syscalls{}).Unload(name); err != nil {
			t.Error(err)
		}
		expect(t, kernel.Syscalls{}.Unload(name), cause.ModuleNotLoaded)
	}
}

func TestGuestRejectsParameters(t *testing.T) {
	guest(t)
	dummy := installed(t, "dummy")
	expect(t, load(t, dummy, "numdummies=abc"), cause.ModuleParameterInvalid, "for parameter `numdummies'")
	expect(t, load(t, dummy, "numdummies=99999999999"), cause.ModuleParameterInvalid, "for parameter `numdummies'")
	k, err := kernel.Observe(kernel.Root{})
	assert.NilError(t, err)
	// What the kernel takes and ignores, the check finds.
	assert.NilError(t, load(t, dummy, "numdummys=1"))
	for param, code := range map[string]cause.Code{"numdummys=1": cause.ModuleParameterUnknown, "numdummies=abc": cause.ModuleParameterInvalid} {
		if got := check.Module(dummy, k, []string{param}, nil); len(got) != 1 || got[0].Code != code {
			t.Errorf("%s: %+v", param, got)
		}
	}
	if got := check.Module(dummy, k, []string{"numdummies=2"}, nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestGuestNamesWhoHasADeviceOpen(t *testing.T) {
	guest(t)
	assert.NilError(t, load(t, installed(t, "fuse")))
	f, err := os.Open("/dev/fuse")
	assert.NilError(t, err)
	defer f.Close()
	expect(t, kernel.Syscalls{}.Unload("fuse"), cause.ModuleInUse, "in use by one open file or other use")
	// /dev/fuse has the numbers 10:229 in the kernel's list of devices.
	got, err := holders.Find(t.Context(), procowner.Root{}, []holders.Devices{{Major: 10, Minors: []uint32{229}}})
	if err != nil || len(got) != 1 || got[0].PID != os.Getpid() || !slices.Equal(got[0].Devices, []string{"/dev/fuse"}) {
		t.Errorf("%+v, %v", got, err)
	}
	assert.NilError(t, f.Close())
	assert.NilError(t, (kernel.Syscalls{}).Unload("fuse"))
}

func TestGuestLoadsWhatIsCompressed(t *testing.T) {
	guest(t)
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	assert.NilError(t, err)
	if _, err := w.Write(installed(t, "dummy").Data); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, w.Close())
	m, err := module.Parse("dummy.ko.zst", packed.Bytes())
	assert.NilError(t, err)
	assert.NilError(t, load(t, m))
}

func TestGuestRejectsFiles(t *testing.T) {
	guest(t)
	dummy := installed(t, "dummy")
	for name, data := range map[string][]byte{
		"half of a module": dummy.Data[:len(dummy.Data)/2],
		"a text":           []byte("#!/bin/sh\n"),
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, load(t, &module.Module{Name: "dummy", Data: data}), cause.ModuleFormatInvalid)
		})
	}
	k, err := kernel.Observe(kernel.Root{})
	assert.NilError(t, err)
	plain := unsigned(t, dummy)
	options := *plain
	options.Data = bytes.Replace(plain.Data, []byte(" SMP preempt "), []byte(" SMP purempt "), 1)
	expect(t, load(t, &options), cause.ModuleFormatInvalid, "version magic")
	// The kernel takes a module for another release, and the check does not.
	release, err := module.Parse("dummy.ko", bytes.Replace(plain.Data, []byte("vermagic="+k.Release), []byte("vermagic=5"+k.Release[1:]), 1))
	assert.NilError(t, err)
	if got := check.Module(release, k, nil, nil); len(got) != 1 || got[0].Code != cause.ModuleWrongRelease {
		t.Errorf("%+v", got)
	}
	assert.NilError(t, load(t, release))
}

func TestGuestIsObserved(t *testing.T) {
	guest(t)
	var name unix.Utsname
	assert.NilError(t, unix.Uname(&name))
	release := unix.ByteSliceToString(name.Release[:])
	root := kernel.Root{Modules: t.TempDir()}
	dummy := installed(t, "dummy")
	dir := filepath.Join(root.Modules, release)
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, "kernel"), 0o755))
	for file, data := range map[string][]byte{"modules.dep": []byte("kernel/dummy.ko:\n"), "kernel/dummy.ko": dummy.Data} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
	}
	k, err := kernel.Observe(root)
	if err != nil || k.Release != release || k.Machine != unix.ByteSliceToString(name.Machine[:]) || k.Vermagic != dummy.Vermagic ||
		k.SecureBoot != nil {
		t.Errorf("%+v, %v", k, err)
	}
	if !slices.ContainsFunc(k.Keys, func(key kernel.Key) bool { return key.Name == dummy.Signature.Signer }) {
		t.Errorf("the keys %v lack that of %+v", k.Keys, dummy.Signature)
	}
	if got := check.Module(dummy, k, []string{"numdummies=1"}, nil); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestGuestDemandsSignatures runs in guests with module.sig_enforce=1 and lockdown=integrity.
func TestGuestDemandsSignatures(t *testing.T) {
	guest(t)
	if err := unix.Mount("securityfs", "/sys/kernel/security", "securityfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	k, err := kernel.Observe(kernel.Root{})
	assert.NilError(t, err)
	if !k.SigEnforce && k.Lockdown == "none" {
		t.Skip("this machine has no kernel that demands signatures")
	}
	dummy := installed(t, "dummy")
	none := unsigned(t, dummy)
	if got := check.Module(none, k, nil, nil); len(got) != 1 || got[0].Code != cause.ModuleUnsigned {
		t.Errorf("%+v", got)
	}
	expect(t, load(t, none), cause.ModuleSignatureRejected, "mokutil --import")
	serial, err := hex.DecodeString(dummy.Signature.KeyID)
	assert.NilError(t, err)
	other := slices.Clone(serial)
	other[len(other)-1]++
	unknown := *dummy
	unknown.Data = bytes.Replace(dummy.Data, serial, other, 1)
	expect(t, load(t, &unknown), cause.ModuleSignatureRejected, "mokutil --import")
	assert.NilError(t, load(t, dummy))
	t.Logf("sig_enforce %v, lockdown %q, keys %v", k.SigEnforce, k.Lockdown, k.Keys)
}
