package build_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/cause"
)

// The driver of network adapters can come to a node after the modules were built.
func TestPeermemIsBuiltWithTheHeadersOfTheNetworkAdapters(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	b.Places.Mellanox = t.TempDir()
	r := build.Request{
		Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: payload.Open,
		Exclude: []string{"nvidia-uvm", "nvidia-modeset", "nvidia-drm"},
	}
	base, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	if m, err := module.Read(base.Path("nvidia_peermem")); err != nil || slices.Contains(m.Depends, "nvidia") || base.Network != "" {
		t.Errorf("without headers: it depends on %q, %q, %v", m.Depends, base.Network, err)
	}
	headers := filepath.Join(b.Places.Mellanox, "usr/src/ofa_kernel/x86_64", release)
	write(t, filepath.Join(headers, "Module.symvers"), "0x00000001\tib_register_peer_memory_client\tib_core\tEXPORT_SYMBOL\t\n")
	alone, err := b.BuildAlone(t.Context(), r, base, build.Alone{Module: "nvidia_peermem"})
	assert.NilError(t, err)
	m, err := module.Read(alone.Path("nvidia_peermem"))
	assert.NilError(t, err)
	core, err := module.Read(base.Path("nvidia"))
	assert.NilError(t, err)
	const symbol = "nvidia_p2p_get_pages"
	if !slices.Equal(m.Depends, []string{"nvidia"}) || m.Needs[symbol] != core.Provides[symbol] || m.Needs[symbol] == 0 {
		t.Errorf("it depends on %q, and needs version %x of %s, which has %x", m.Depends, m.Needs[symbol], symbol, core.Provides[symbol])
	}
	if id := b.Places.Network(release, "x86_64").ID; alone.Network != id || id == "" || len(alone.Modules) != 1 || alone.Key == base.Key {
		t.Errorf("%+v, want the network %q", alone, id)
	}
	assert.NilError(t, os.WriteFile(filepath.Join(headers, "Module.symvers"), []byte("0x00000002\tib_register_peer_memory_client\tib_core\tEXPORT_SYMBOL\t\n"), 0o600))
	if id := b.Places.Network(release, "x86_64").ID; id == alone.Network {
		t.Error("another driver of network adapters has the same identity")
	}
}

// The driver of network adapters leaves headers that are incomplete, or that reject nvidia_peermem.
func TestPeermemThatDoesNotCompileDoesNotHoldTheDriverBack(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	b.Places.Mellanox = t.TempDir()
	headers := filepath.Join(b.Places.Mellanox, "usr/src/ofa_kernel", release)
	write(t, filepath.Join(headers, "Module.symvers"), "0x00000001\tib_register_peer_memory_client\tib_core\tEXPORT_SYMBOL\t\n")
	header := filepath.Join(headers, "include/rdma/peer_mem.h")
	write(t, header, "#error it is incomplete\n")
	r := build.Request{
		Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: payload.Open,
		Exclude: []string{"nvidia-uvm", "nvidia-modeset", "nvidia-drm"},
	}
	base, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	if len(base.Modules) != 1 || base.Modules[0].Name != "nvidia" || base.Network != "" {
		t.Errorf("%+v", base)
	}
	peermem := build.Alone{Module: "nvidia_peermem"}
	if _, err := b.BuildAlone(t.Context(), r, base, peermem); code(err) != cause.ModuleBuildFailed || !strings.Contains(err.Error(), "it is incomplete") {
		t.Error(err)
	}
	before, err := b.ToolsID(t.Context(), release, "x86_64")
	assert.NilError(t, err)
	write(t, header, "")
	if after, err := b.ToolsID(t.Context(), release, "x86_64"); err != nil || after == before {
		t.Errorf("other headers, and the same ID: %v", err)
	}
	alone, err := b.BuildAlone(t.Context(), r, base, peermem)
	if err != nil || alone.Network != b.Places.Network(release, "x86_64").ID {
		t.Errorf("%+v, %v", alone, err)
	}
}

// NVIDIA's packages build nvidia-fs and gdrdrv with Makefiles of their own.
func TestModulesWithTheirOwnSourcesAreBuilt(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	r := build.Request{Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: payload.Open, Exclude: allButNVIDIA}
	base, err := b.Build(t.Context(), r)
	if err != nil || len(base.Modules) != 1 || base.Modules[0].Name != "nvidia" {
		t.Fatalf("without the other modules: %+v, %v", base, err)
	}
	core, err := module.Read(base.Path("nvidia"))
	if err != nil || core.Signature != nil {
		t.Fatalf("without a signer: %+v, %v", core, err)
	}
	for name, tc := range map[string]struct{ folder, depends string }{
		"nvidia_fs": {"nvidia-fs", "nvidia"},
		"gdrdrv":    {"gdrdrv", "nv_p2p_dummy"},
	} {
		t.Run(name, func(t *testing.T) {
			a := build.Alone{Module: name, Source: filepath.Join("../../../../sim/optional", tc.folder), Digest: "0123456789abcdef0123"}
			set, err := b.BuildAlone(t.Context(), r, base, a)
			assert.NilError(t, err)
			m, err := module.Read(set.Path(name))
			assert.NilError(t, err)
			const symbol = "nvidia_p2p_get_pages"
			if !slices.Equal(m.Depends, []string{tc.depends}) || m.Needs[symbol] != core.Provides[symbol] || m.Needs[symbol] == 0 {
				t.Errorf("it depends on %q, and needs version %x of %s, which has %x", m.Depends, m.Needs[symbol], symbol, core.Provides[symbol])
			}
			if len(set.Modules) != 1 || set.Key.Flavour != "open-"+name+"-0123456789abcdef" {
				t.Errorf("%+v", set)
			}
		})
	}
}
