package ctk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

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

// enabledErr rejects values of --enable-hook that are no hook.
func enabledErr(c *cli.Context) error {
	for _, name := range values(c, "enable-hook") {
		if name != oneHook && name != "chmod" {
			return fmt.Errorf("flag --enable-hook: %q: must be %s or chmod; all other hooks are on", name, oneHook)
		}
	}
	return nil
}

// hookOf returns the path of the hook for the spec, empty for none, and whether it is the
// one of this project, which does all work in one call. Unless a flag names it, it is the
// one that a package installed, or that is where the config file has nvidia-ctk.
func hookOf(c *cli.Context, cfg *toolconfig.Config, stderr io.Writer) (path string, one bool) {
	path = c.String("nvidia-cdi-hook-path")
	if !c.IsSet("nvidia-cdi-hook-path") {
		path = cmp.Or(existing(defaultHook), existing(filepath.Join(filepath.Dir(cfg.CTKPath), hookName)))
		if path == "" {
			note(c, stderr, defaultHook+" does not exist: the spec has no hooks, and mounts each library by all of its names")
		}
	}
	if path == "" || slices.Contains(values(c, "disable-hook"), oneHook) {
		return path, false
	}
	return path, slices.Contains(values(c, "enable-hook"), oneHook) || ours(path)
}

// existing returns an absolute path if there is a file, else "".
func existing(path string) string {
	if _, err := os.Stat(path); !filepath.IsAbs(path) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// ours reports whether a hook was installed with this program, in the same folder.
func ours(hook string) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(hook)
	return err == nil && filepath.Dir(real) == filepath.Dir(self)
}
