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
	// hookChmod is a hook of NVIDIA's tools. Specs of this package do not have it.
	hookChmod = "chmod"
	// hookOne runs all hooks in the same order, in one process instead of five.
	hookOne = "prepare-container"
)

// GPUHooks returns the hooks that hide other GPUs. Specs for pods that manage a node omit them.
func GPUHooks() []string { return []string{hookDeviceNodes, hookProfile} }

// runs reports whether the spec has the hook.
func (o Options) runs(hook string) bool {
	return o.HookPath != "" && !slices.Contains(o.DisabledHooks, hook) && !slices.Contains(o.DisabledHooks, All)
}

// hooks returns the calls of nvidia-cdi-hook that adapt a container's links and
// loader cache to the mounted libraries. They must run in this order.
func hooks(c *driverroot.Content, o Options) []*specs.Hook {
	if o.HookPath == "" {
		return nil
	}
	h := hookMaker{path: o.HookPath}
	var out []*specs.Hook
	var flags []string
	for _, j := range jobs(c, o) {
		if o.runs(j.hook) {
			out = append(out, h.hook(j.hook, j.args...))
			flags = append(flags, j.flags...)
		}
	}
	if o.OneHook && len(out) > 0 {
		return []*specs.Hook{h.hook(hookOne, flags...)}
	}
	return out
}

// job is one hook with its arguments.
type job struct {
	hook string
	// args are the arguments of the hook itself. flags select the job in a call of hookOne.
	args, flags []string
}

func jobs(c *driverroot.Content, o Options) []job {
	folders := folders(c)
	version := []string{"--host-driver-version=" + c.Version}
	cache := folders
	if o.LdconfigPath != "" {
		cache = append([]string{"--ldconfig-path", o.LdconfigPath}, folders...)
	}
	return []job{
		{hookLinks, links(c), links(c)},
		{hookCompat, version, version},
		// hookOne writes the cache without ldconfig.
		{hookCache, cache, folders},
		{hookDeviceNodes, nil, []string{"--" + hookDeviceNodes}},
		{hookProfile, nil, []string{"--" + hookProfile}},
	}
}

// folders returns the folders of the libraries for the loader cache, each as a flag.
func folders(c *driverroot.Content) []string {
	var dirs []string
	for _, l := range c.Libraries {
		if dir := path.Dir(l.Path); !l.PlugIn() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	var out []string
	for _, dir := range dirs {
		out = append(out, "--folder", dir)
	}
	return out
}

// links returns the links that ldconfig does not create.
func links(c *driverroot.Content) []string {
	var out []string
	link := func(target, at string) { out = append(out, "--link", target+"::"+at) }
	for _, l := range c.Libraries {
		dir, target := path.Split(l.Path)
		for i, name := range l.Names {
			link(strings.Repeat("../", strings.Count(name, "/"))+target, dir+name)
			if i == 0 {
				target = name // the SONAME, if the library has one
			}
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
