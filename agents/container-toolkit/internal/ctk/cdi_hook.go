package ctk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// hookName is the name of the program with the hooks, and defaultHook its path where a
// package installs it.
const (
	hookName    = "nvidia-cdi-hook"
	defaultHook = "/usr/bin/" + hookName
)

// oneHook is the hook that does all work of a container at once.
const oneHook = "prepare-container"

// checkEnabled rejects values of --enable-hook that are no hook.
func (g *generation) checkEnabled() error {
	for _, name := range g.enabled {
		if name != oneHook && name != "chmod" {
			return fmt.Errorf("flag --enable-hook: %q: must be %s or chmod; all other hooks are on", name, oneHook)
		}
	}
	return nil
}

// completeHook sets the path of the hook for the spec, empty for none, and whether it is the
// one of this project, which does all work in one call. Unless a flag names it, it is the
// one that a package installed, or that is where the config file has nvidia-ctk.
func (g *generation) completeHook(cfg *toolconfig.Config, named bool) {
	o := &g.options
	if !named {
		o.HookPath = cmp.Or(existing(defaultHook), existing(filepath.Join(filepath.Dir(cfg.CTKPath), hookName)))
		if o.HookPath == "" {
			g.printNote(defaultHook + " does not exist: the spec has no hooks, and mounts each library by all of its names")
		}
	}
	o.OneHook = o.HookPath != "" && !slices.Contains(g.disabled, oneHook) && (slices.Contains(g.enabled, oneHook) || installedTogether(o.HookPath))
}

// existing returns an absolute path if there is a file, else "".
func existing(path string) string {
	if _, err := os.Stat(path); !filepath.IsAbs(path) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// installedTogether reports whether a hook was installed with this program, in the same folder.
func installedTogether(hook string) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(hook)
	return err == nil && filepath.Dir(real) == filepath.Dir(self)
}
