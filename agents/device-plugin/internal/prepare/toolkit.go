package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/hostfs"
)

// Toolkit is the container toolkit of the node, which the fact toolkit-ready describes. The
// zero value is a node without a toolkit.
type Toolkit struct {
	Contract contract.Dir
	// Root is the driver installation. If it is the host's root, it is used to check that the
	// hook exists.
	Root *driverroot.Root
	// InstallDir is the folder on the host where the toolkit is installed. The hook is in its
	// subfolder "toolkit". A fact that names another program is rejected, because the container
	// engine runs the hook as root.
	InstallDir string
}

// hook is the hook of the toolkit.
type hook struct {
	// path is its path on the host, or "" if there is none.
	path string
	// problem is the reason why a hook is not used, or "".
	problem string
}

// err returns the problem as an error, or nil.
func (h hook) err() error {
	if h.problem == "" {
		return nil
	}
	return errors.New(h.problem)
}

// hook finds the toolkit's hook. NVIDIA's toolkit does not report a hook. If the toolkit that wrote
// the fact has ended, the hook is still used, because the hook stays while the toolkit's pod is
// replaced: an uninstalled toolkit removes its fact first.
//
// It uses no hook if the fact names another program, or if users other than root can change the fact
// or the hook. The hook itself can only be checked if the driver root is the host's root.
func (t Toolkit) hook() hook {
	if t.Root == nil {
		return hook{}
	}
	fact := t.Contract.Read(contract.ToolkitReady)
	path := fact.Values[contract.KeyCDIHook]
	switch own := filepath.Join(t.InstallDir, "toolkit/nvidia-cdi-hook"); {
	case fact.State == contract.Unreadable:
		return hook{problem: fact.Reason}
	case fact.State != contract.Valid && fact.State != contract.WriterDead || path == "":
		return hook{}
	case path != own:
		return hook{problem: fmt.Sprintf("%s names the hook %s, want %s: if the container toolkit is installed in another folder, set --toolkit-install-dir",
			t.Contract.Path(contract.ToolkitReady), path, own)}
	case t.Root.HostPath() == "/":
		_, err := hostfs.Trusted(t.Root.CtrPath(), path)
		if errors.Is(err, fs.ErrNotExist) {
			return hook{}
		}
		if err != nil {
			return hook{problem: err.Error()}
		}
	}
	return hook{path: path}
}

// watched returns the file of the fact toolkit-ready, and the folders above the file. The file need
// not exist.
func (t Toolkit) watched() []string {
	if t.Root == nil {
		return nil
	}
	fact := t.Contract.Path(contract.ToolkitReady)
	return []string{t.Contract.Root, filepath.Dir(fact), fact}
}
