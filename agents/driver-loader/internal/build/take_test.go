package build_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/cause"
)

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
	r.Payload.Precompiled = map[string]string{release: built.Dir}
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
	r.Payload.Precompiled = map[string]string{r.Release: built.Dir}
	if _, err := other.Build(t.Context(), r); code(err) != cause.KernelHeadersMissing {
		t.Error(err)
	}
	// Without sources, that is why there are no modules.
	r.Payload.Sources = nil
	if _, err := other.Build(t.Context(), r); code(err) != cause.ModuleWrongRelease || !strings.Contains(err.Error(), release) {
		t.Error(err)
	}
	r.Payload.Precompiled = map[string]string{release: built.Dir}
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
	r.Payload.Precompiled = map[string]string{release: built.Dir}
	if r.Signer, err = build.NewSigner(newKey(t, "rsa")); err != nil {
		t.Fatal(err)
	}
	set, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	if m, err := module.Read(set.Path("nvidia")); err != nil || m.Signature == nil || m.Signature.Signer != "Tests" {
		t.Errorf("%+v, %v", m, err)
	}
}
