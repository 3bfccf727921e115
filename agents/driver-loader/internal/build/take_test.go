package build_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

// precompiled has a folder with open modules.
func precompiled(release, dir string) map[string]map[payload.Flavour]string {
	return map[string]map[payload.Flavour]string{release: {payload.Open: dir}}
}

// TestPrecompiledModulesWithNVIDIAsLicenses takes modules with the licenses of NVIDIA's modules: only the license of the
// module nvidia shows the flavour.
func TestPrecompiledModulesWithNVIDIAsLicenses(t *testing.T) {
	const release = "6.8.0-60-generic"
	driver := payloadtest.Driver{Version: "580.95.05"}
	ubuntu := driver.Ubuntu(t, release)
	for name, test := range map[string]struct {
		image   string
		flavour payload.Flavour
	}{
		"open, for Red Hat":        {driver.RedHat(t, release, moduletest.Open), payload.Open},
		"proprietary, for Red Hat": {driver.RedHat(t, release, moduletest.Proprietary), payload.Proprietary},
		"open, for Ubuntu":         {ubuntu, payload.Open},
		"proprietary, for Ubuntu":  {ubuntu, payload.Proprietary},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t, t.TempDir())
			p, err := payload.Store{Dir: b.Places.Store, Machine: "x86_64"}.Import(t.Context(), test.image)
			assert.NilError(t, err)
			r := build.Request{Release: release, Machine: "x86_64", Banner: "Linux version " + release + " (a@b) (gcc-13 13.2.0, GNU ld 2.42) #1 SMP", Payload: p, Flavour: test.flavour}
			set, err := b.Build(t.Context(), r)
			assert.NilError(t, err)
			licenses := map[payload.Flavour]func(string) string{payload.Open: moduletest.Open, payload.Proprietary: moduletest.Proprietary}
			for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"} {
				if m, err := module.Read(set.Path(name)); err != nil || m.License != licenses[test.flavour](name) {
					t.Errorf("%s: %+v, %v", name, m, err)
				}
			}
			r.Payload.Precompiled[release][payload.Open], r.Payload.Precompiled[release][payload.Proprietary] = r.Payload.Precompiled[release][payload.Proprietary], r.Payload.Precompiled[release][payload.Open]
			if _, err := b.Build(t.Context(), r); code(err) != cause.ModuleSourcesMissing {
				t.Errorf("modules of the other flavour: %v", err)
			}
		})
	}
}

// TestPartsOfModulesAreLinkedAndSigned links modules that Ubuntu distributes in parts, with a script of the package.
func TestPartsOfModulesAreLinkedAndSigned(t *testing.T) {
	const release = "6.8.0-60-generic"
	object := payloadtest.Modules("580.95.05", release, moduletest.Proprietary)["nvidia.ko"]
	signer, err := build.NewSigner(newKey(t, "rsa"))
	assert.NilError(t, err)
	signed, err := signer.Sign([]byte(object), build.HashFor(""))
	assert.NilError(t, err)
	sum := sha256.Sum256([]byte(object))
	digest := hex.EncodeToString(sum[:])
	for name, test := range map[string]struct {
		script, digests, says string
		want                  cause.Code
	}{
		"linked and signed":         {"cat one two > nvidia.ko", digest + "  nvidia.ko\n", "", ""},
		"no linker":                 {"no-such-ld one two", "", "no-such-ld", cause.BuildToolsMissing},
		"a linker that fails":       {"echo 'ld: error: no memory map' >&2; false; cat one > nvidia.ko", "", "no memory map", cause.BuildToolsMissing},
		"a full disk":               {"echo 'ld: final link failed: No space left on device' >&2; exit 1", "", "No space left", cause.NoSpace},
		"a linker without memory":   {"echo 'ld: final link failed: memory exhausted' >&2; echo end >&2; exit 1", "", "does not link the modules: ld: final link failed: memory exhausted", cause.ModuleBuildKilled},
		"a linker that is killed":   {"sh -c 'kill -9 $$'", "", "BUILD", cause.ModuleBuildKilled},
		"a script that is killed":   {"kill -9 $$", "", "BUILD", cause.ModuleBuildKilled},
		"another linker":            {"cat two one > nvidia.ko", digest + "  nvidia.ko\n", "nvidia.ko has another digest", cause.ModuleBuildFailed},
		"digests of a file outside": {"cat one two > nvidia.ko", digest + "  ../../nvidia.ko\n", "has the path", cause.ModuleBuildFailed},
		"no digests":                {"cat one two > nvidia.ko; rm SHA256SUMS", "", "SHA256SUMS", cause.ModuleBuildFailed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{"BUILD": test.script, "SHA256SUMS": test.digests, "one": object[:100], "two": object[100:], "nvidia.ko.sig": string(signed[len(object):])} {
				payloadtest.Write(t, filepath.Join(dir, "bits", file), content, 0o644)
			}
			b := newBuilder(t, t.TempDir())
			set, err := b.Build(t.Context(), build.Request{
				Release: release, Machine: "x86_64", Banner: "Linux version " + release + " (a@b) (gcc-13 13.2.0, GNU ld 2.42) #1 SMP", Flavour: payload.Proprietary,
				Payload: payload.Payload{Version: "580.95.05", Digest: "d", Precompiled: map[string]map[payload.Flavour]string{release: {payload.Proprietary: dir}}},
			})
			if test.want != "" {
				var c cause.Cause
				if !errors.As(err, &c) || c.Code != test.want || !strings.Contains(c.Text, test.says) || c.Fix == "" {
					t.Errorf("%+v", err)
				}
				return
			}
			assert.NilError(t, err)
			if m, err := module.Read(set.Path("nvidia")); err != nil || m.Signature == nil || m.License != "NVIDIA" {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

func TestPrecompiledModulesAreTakenWithoutACompiler(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	p := sources(t, b.Places.Store, standIns)
	r := build.Request{Release: release, Machine: "x86_64", Payload: p, Flavour: payload.Open, Exclude: allButNVIDIA}
	built, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	h, err := b.Places.Headers(release)
	assert.NilError(t, err)
	r.Banner = "Linux version " + release + " (a@b) (" + h.Compiler + ", GNU ld 2.40) #1 SMP"
	r.Payload.Precompiled = precompiled(release, built.Dir)
	t.Setenv("PATH", t.TempDir())
	other := newBuilder(t, t.TempDir())
	set, err := other.Build(t.Context(), r)
	if err != nil || len(set.Modules) != len(built.Modules) || set.Key != r.Key(r.Banner) || set.Prebuilt {
		t.Errorf("%+v, %v", set, err)
	}
	if m, err := module.Read(set.Path("nvidia")); err != nil || m.Signature != nil {
		t.Errorf("%+v, %v", m, err)
	}
	// Those of the other flavour, and of another kernel, do not fit.
	r.Flavour = payload.Proprietary
	if _, err := other.Build(t.Context(), r); code(err) != cause.ModuleSourcesMissing {
		t.Error(err)
	}
	r.Flavour, r.Release = payload.Open, "6.1.0-1-amd64"
	r.Payload.Precompiled = precompiled(r.Release, built.Dir)
	if _, err := other.Build(t.Context(), r); code(err) != cause.KernelHeadersMissing {
		t.Error(err)
	}
	// Without sources, that is why there are no modules.
	r.Payload.Sources = nil
	if _, err := other.Build(t.Context(), r); code(err) != cause.ModuleWrongRelease || !strings.Contains(err.Error(), release) {
		t.Error(err)
	}
	r.Payload.Precompiled = precompiled(release, built.Dir)
	if _, err := other.Build(t.Context(), r); code(err) != cause.ModuleSourcesMissing || !strings.Contains(err.Error(), release) {
		t.Error(err)
	}
}

func TestPrecompiledModulesAreSignedIfNobodyHas(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	r := build.Request{Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: payload.Open, Exclude: allButNVIDIA}
	built, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	h, err := b.Places.Headers(release)
	assert.NilError(t, err)
	r.Banner = "Linux version " + release + " (a@b) (" + h.Compiler + ", GNU ld 2.40) #1 SMP"
	r.Payload.Precompiled = precompiled(release, built.Dir)
	if r.Signer, err = build.NewSigner(newKey(t, "rsa")); err != nil {
		t.Fatal(err)
	}
	set, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	if m, err := module.Read(set.Path("nvidia")); err != nil || m.Signature == nil || m.Signature.Signer != "Tests" {
		t.Errorf("%+v, %v", m, err)
	}
}
