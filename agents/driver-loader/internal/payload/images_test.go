package payload_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/driverroot"
)

const release = "6.8.0-60-generic"

// TestImagesOfNVIDIA imports the layouts of NVIDIA's driver images, and of Debian's packages.
func TestImagesOfNVIDIA(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	guest := payloadtest.Driver{Version: version, Suffix: "-grid"}
	both := []payload.Flavour{payload.Open, payload.Proprietary}
	for name, test := range map[string]struct {
		image, version string
		flavours       []payload.Flavour
	}{
		"data center":                              {payloadtest.Container(t, driver), version, both},
		"guest with a virtual GPU":                 {payloadtest.Container(t, guest), version + "-grid", both},
		"container for Ubuntu 26.04":               {driver.Ubuntu2604(t), version, both},
		"precompiled for Ubuntu":                   {driver.Ubuntu(t, release), version, both},
		"precompiled for Red Hat":                  {driver.RedHat(t, release, moduletest.Open), version, both[:1]},
		"precompiled for Red Hat, and proprietary": {driver.RedHat(t, release, moduletest.Proprietary), version, both[1:]},
		"packages of Debian":                       {driver.Debian(t), version, both[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p, err := s.Import(t.Context(), test.image)
			assert.NilError(t, err)
			if p.Version != test.version || p.Dir != filepath.Join(s.Dir, "drivers", test.version+"-"+p.Digest[:16]) {
				t.Errorf("%+v", p)
			}
			if err := p.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(test.flavours, p.Flavours(release)); d != "" {
				t.Errorf("flavours (-want +got):\n%s", d)
			}
			// The kernel looks for firmware in lib/firmware of the driver root.
			firmware := filepath.Join(p.Root, "lib/firmware/nvidia", version, "gsp_ga10x.bin")
			if data, err := os.ReadFile(firmware); err != nil || string(data) != "firmware of "+version {
				t.Errorf("%q, %v", data, err)
			}
			root, err := driverroot.New(driverroot.Config{CtrPath: p.Root})
			assert.NilError(t, err)
			if file, err := root.FindLibrary(driverroot.NVML); err != nil || filepath.Base(file) != "libnvidia-ml.so."+version {
				t.Errorf("%s, %v", file, err)
			}
			for _, other := range []string{"usr/local/repos", "usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/i386-linux-gnu", "opt/lib/firmware", "usr/share/doc", "usr/share/nvidia-kernel-source"} {
				if _, err := os.Lstat(filepath.Join(p.Root, other)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the driver root has %s: %v", other, err)
				}
			}
			if again, err := s.Import(t.Context(), test.image); err != nil || again.Dir != p.Dir {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}

// TestPrecompiledModulesOfUbuntu says where modules and their parts are.
func TestPrecompiledModulesOfUbuntu(t *testing.T) {
	p, err := newStore(t).Import(t.Context(), payloadtest.Driver{Version: version}.Ubuntu(t, release))
	assert.NilError(t, err)
	for flavour, want := range map[payload.Flavour]string{
		payload.Open:        "nvidia-drm.ko nvidia-modeset.ko nvidia-peermem.ko nvidia-uvm.ko nvidia.ko",
		payload.Proprietary: "bits",
	} {
		entries, err := os.ReadDir(p.Precompiled[release][flavour])
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v", flavour, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Precompiled[release][payload.Proprietary], payload.PartsName, payload.LinkName)); err != nil {
		t.Errorf("the parts are of another driver: %v", err)
	}
	if len(p.Flavours("6.8.0-61-generic")) > 0 {
		t.Errorf("modules for another kernel: %v", p.Precompiled)
	}
}

func TestOneOfSeveralDriversInAnImage(t *testing.T) {
	image := payloadtest.Container(t, payloadtest.Driver{Version: version, Suffix: "-grid"}, payloadtest.Driver{Version: "570.86.15", Suffix: "-grid"}, payloadtest.Driver{Version: version})
	for wanted, want := range map[string]string{version + "-grid": version + "-grid", "570.86.15-grid": "570.86.15-grid", version: version, "": "", "570.86.15": ""} {
		s := newStore(t)
		s.Version = wanted
		p, err := s.Import(t.Context(), image)
		if p.Version != want {
			t.Errorf("%q: %+v, %v", wanted, p, err)
		}
		if want == "" && (code(err) != cause.PayloadMissing || !strings.Contains(err.Error(), "570.86.15-grid, "+version+", "+version+"-grid") || !strings.Contains(err.Error(), "--driver-version")) {
			t.Errorf("%q: %v", wanted, err)
		}
	}
	// The only driver of an image is imported, whatever its version.
	s := newStore(t)
	s.Version = "1.2"
	if p, err := s.Import(t.Context(), payloadtest.Container(t, payloadtest.Driver{Version: version})); err != nil || p.Version != version {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestARenamedArchiveKeepsItsVersion takes the suffix from the archive, if its name does not have it. Only the suffix of
// drivers for virtual GPUs is a part of the version.
func TestARenamedArchiveKeepsItsVersion(t *testing.T) {
	for suffix, want := range map[string]string{"-grid": version + "-grid", "-no-compat32": version} {
		archive, err := os.ReadFile(payloadtest.Driver{Version: version, Suffix: suffix}.Archive(t, "gzip"))
		assert.NilError(t, err)
		path := filepath.Join(t.TempDir(), "driver.run")
		payloadtest.Write(t, path, string(archive), 0o755)
		if p, err := newStore(t).Import(t.Context(), path); err != nil || p.Version != want {
			t.Errorf("%s: %+v, %v", suffix, p, err)
		}
	}
}

// TestTwoFoldersWithSources imports the sources of the first folder, and gives the same digest each time.
func TestTwoFoldersWithSources(t *testing.T) {
	image := payloadtest.Driver{Version: version}.Debian(t)
	payloadtest.Write(t, filepath.Join(image, "usr/src/nvidia-srv-"+version, "nvidia/nv.c"), "MODULE_LICENSE(\"NVIDIA\"); // of another package\n", 0o644)
	digests := map[string]bool{}
	for range 8 {
		p, err := newStore(t).Import(t.Context(), image)
		assert.NilError(t, err)
		digests[p.Digest] = true
		data, err := os.ReadFile(filepath.Join(p.Sources[payload.Proprietary], "nvidia/nv.c"))
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(data), "another package"))
	}
	assert.Equal(t, len(digests), 1)
}

// TestTheDriverForTheHostOfAVirtualGPU runs a stand-in for vgpu-util.
func TestTheDriverForTheHostOfAVirtualGPU(t *testing.T) {
	guests := payloadtest.Container(t, payloadtest.Driver{Version: version, Suffix: "-grid"}, payloadtest.Driver{Version: "570.86.15", Suffix: "-grid"})
	for name, test := range map[string]struct{ image, script, want, says string }{
		"the host's version":        {guests, `[ "$1" = count ] && echo count=2 || { [ "$*" = "match -i ` + guests + `/drivers -c ` + guests + `/drivers/vgpuDriverCatalog.yaml" ] && echo version=570.86.15-grid; }`, "570.86.15-grid", ""},
		"no virtual GPU":            {guests, `echo count=0`, "", ""},
		"a count that fails":        {guests, `exit 1`, "", ""},
		"no driver for the host":    {guests, `[ "$1" = count ] && echo count=1`, "", "DISABLE_VGPU_VERSION_CHECK=true"},
		"an image without guests":   {payloadtest.Container(t, payloadtest.Driver{Version: version}), `echo count=1`, "", ""},
		"an image without the tool": {guests, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			if test.script != "" {
				payloadtest.Write(t, bin+"/vgpu-util", "#!/bin/sh\n"+test.script+"\n", 0o755)
			}
			t.Setenv("PATH", bin)
			got, err := payload.GuestVersion(t.Context(), test.image)
			if got != test.want || (err != nil) != (test.says != "") || err != nil && (code(err) != cause.PayloadMissing || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	bin := t.TempDir()
	payloadtest.Write(t, bin+"/vgpu-util", "#!/bin/sh\necho count=1\n", 0o755)
	t.Setenv("PATH", bin)
	if _, err := payload.GuestVersion(cancelled, guests); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
