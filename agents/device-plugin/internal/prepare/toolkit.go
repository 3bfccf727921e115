package prepare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
)

// Toolkit is the container toolkit of the node, which the fact toolkit-ready describes. The
// zero value is a node without a toolkit.
type Toolkit struct {
	Contract contract.Dir
	// Root is the driver installation. If it is the host's root, it is used to check that the
	// hook exists.
	Root *driverroot.Root
}

// hook returns the path of the toolkit's hook on the host, or "" if there is none. NVIDIA's
// toolkit does not report a hook. The hook of a writer that has ended is still used, because
// it stays while the toolkit's pod is replaced: an uninstalled toolkit removes its fact first.
func (t Toolkit) hook() string {
	if t.Root == nil {
		return ""
	}
	fact := t.Contract.Read(contract.ToolkitReady)
	path := fact.Values[contract.KeyCDIHook]
	if fact.State != contract.Valid && fact.State != contract.WriterDead || path == "" {
		return ""
	}
	if seen, ok := t.Root.CtrPathOf(path); ok && t.Root.HostPath() == "/" {
		if _, err := os.Stat(seen); errors.Is(err, fs.ErrNotExist) {
			return ""
		}
	}
	return path
}

// watched returns the file of the fact and its folders. The file need not exist.
func (t Toolkit) watched() []string {
	if t.Root == nil {
		return nil
	}
	fact := t.Contract.Path(contract.ToolkitReady)
	return []string{t.Contract.Root, filepath.Dir(fact), fact}
}
