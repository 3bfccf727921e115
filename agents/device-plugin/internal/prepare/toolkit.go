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
	// InstallDir is the folder on the host in which the toolkit is installed. The hook is in its
	// folder toolkit. The fact cannot name another program, because the container engine runs the
	// hook as root.
	InstallDir string
}

// hook returns the path of the toolkit's hook on the host, or "" if there is none. NVIDIA's
// toolkit does not report a hook. The hook of a writer that has ended is still used, because
// it stays while the toolkit's pod is replaced: an uninstalled toolkit removes its fact first.
//
// It returns an error if the fact names another program, or if users other than root can change the
// hook. The second is only checked if the driver root is the host's root.
func (t Toolkit) hook() (string, error) {
	if t.Root == nil {
		return "", nil
	}
	fact := t.Contract.Read(contract.ToolkitReady)
	path := fact.Values[contract.KeyCDIHook]
	if fact.State != contract.Valid && fact.State != contract.WriterDead || path == "" {
		return "", nil
	}
	if own := filepath.Join(t.InstallDir, "toolkit/nvidia-cdi-hook"); path != own {
		return "", fmt.Errorf("%s names the hook %s, want %s: if the container toolkit is installed in another folder, set --toolkit-install-dir",
			t.Contract.Path(contract.ToolkitReady), path, own)
	}
	if t.Root.HostPath() == "/" {
		_, err := hostfs.Trusted(t.Root.CtrPath(), path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("use the hook %s: %w", path, err)
		}
	}
	return path, nil
}

// watched returns the file of the fact and its folders. The file need not exist.
func (t Toolkit) watched() []string {
	if t.Root == nil {
		return nil
	}
	fact := t.Contract.Path(contract.ToolkitReady)
	return []string{t.Contract.Root, filepath.Dir(fact), fact}
}
