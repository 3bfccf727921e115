package cdi

import (
	"path"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/driverroot"
)

// The hooks that a spec may have, as nvidia-cdi-hook names them.
const (
	hookLinks       = "create-symlinks"
	hookCompat      = "enable-cuda-compat"
	hookCache       = "update-ldcache"
	hookDeviceNodes = "disable-device-node-modification"
	hookProfile     = "update-application-profile"
	// hookChmod is a hook of NVIDIA's tools that no spec of this package has.
	hookChmod = "chmod"
)

// GPUHooks returns the hooks that specs for pods which manage a node do without: they
// hide what belongs to other GPUs.
func GPUHooks() []string { return []string{hookDeviceNodes, hookProfile} }

// runs reports whether the spec has the hook.
func (o Options) runs(hook string) bool {
	return o.HookPath != "" && !slices.Contains(o.DisabledHooks, hook) && !slices.Contains(o.DisabledHooks, All)
}

// hooks returns the calls of nvidia-cdi-hook that adapt a container's links and
// loader cache to the mounted libraries, in the order in which they must run.
func hooks(c *driverroot.Content, o Options) []*specs.Hook {
	if o.HookPath == "" {
		return nil
	}
	h := hookMaker{path: o.HookPath}
	var dirs []string
	for _, l := range c.Libraries {
		if dir := path.Dir(l.Path); !l.PlugIn() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	var folders []string
	if o.LdconfigPath != "" {
		folders = append(folders, "--ldconfig-path", o.LdconfigPath)
	}
	for _, dir := range dirs {
		folders = append(folders, "--folder", dir)
	}
	var out []*specs.Hook
	for _, call := range []struct {
		name string
		args []string
	}{
		{hookLinks, links(c)},
		{hookCompat, []string{"--host-driver-version=" + c.Version}},
		{hookCache, folders},
		{hookDeviceNodes, nil},
		{hookProfile, nil},
	} {
		if o.runs(call.name) {
			out = append(out, h.hook(call.name, call.args...))
		}
	}
	return out
}

// links returns the links that ldconfig does not create.
func links(c *driverroot.Content) []string {
	var out []string
	link := func(target, at string) { out = append(out, "--link", target+"::"+at) }
	for _, l := range c.Libraries {
		dir, base := path.Split(l.Path)
		target := base
		for _, name := range l.Names {
			link(strings.Repeat("../", strings.Count(name, "/"))+target, dir+name)
			target = name
		}
	}
	return out
}

type hookMaker struct{ path string }

func (h hookMaker) hook(name string, args ...string) *specs.Hook {
	argv := []string{path.Base(h.path)}
	if argv[0] == "nvidia-ctk" {
		argv = append(argv, "hook")
	}
	return &specs.Hook{
		HookName: "createContainer",
		Path:     h.path,
		Args:     append(append(argv, name), args...),
		Env:      []string{"NVIDIA_CTK_DEBUG=false"},
	}
}
