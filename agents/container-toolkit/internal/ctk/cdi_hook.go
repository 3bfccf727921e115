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

// hookName is the name of the program with the hooks. defaultHook is its path in a
// package.
const (
	hookName    = "nvidia-cdi-hook"
	defaultHook = "/usr/bin/" + hookName
)

// oneHook is the hook that does all work in a container at once.
const oneHook = "prepare-container"

// checkEnabled rejects values of --enable-hook that are not hooks.
func (g *generation) checkEnabled() error {
	for _, name := range g.enabled {
		if name != oneHook && name != "chmod" {
			return fmt.Errorf("flag --enable-hook: %q: must be %s or chmod; all other hooks are enabled already", name, oneHook)
		}
	}
	return nil
}

// completeHook sets the path of the hook, or an empty path for a spec without hooks. It also sets
// whether the spec uses the hook prepare-container of this project. Unless a flag sets the path,
// the path is defaultHook, or else the hook in the folder of nvidia-ctk that the config file names.
func (g *generation) completeHook(cfg *toolconfig.Config, named bool) {
	o := &g.options
	if !named {
		o.HookPath = cmp.Or(existing(defaultHook), existing(filepath.Join(filepath.Dir(cfg.CTKPath), hookName)))
		if o.HookPath == "" {
			g.note = defaultHook + " does not exist: the spec has no hooks, and mounts each library by all of its names"
		}
	}
	o.OneHook = o.HookPath != "" && !slices.Contains(g.disabled, oneHook) && (slices.Contains(g.enabled, oneHook) || installedTogether(o.HookPath))
}

// existing returns path if it is absolute and exists. Otherwise it returns "".
func existing(path string) string {
	if _, err := os.Stat(path); !filepath.IsAbs(path) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// installedTogether reports whether a hook is in the same folder as this program.
func installedTogether(hook string) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(hook)
	return err == nil && filepath.Dir(real) == filepath.Dir(self)
}
