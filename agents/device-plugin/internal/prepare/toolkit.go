package prepare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
)

// Toolkit is the container toolkit of the node, as its fact shows it. The zero value is
// none.
type Toolkit struct {
	Contract contract.Dir
	// Root is the driver installation. Where it is the host's own root, it shows whether
	// the hook exists.
	Root *driverroot.Root
}

// hook returns the path of the toolkit's hook on the host, empty if there is none. A
// toolkit of NVIDIA reports none. While the toolkit's pod is replaced, its hook stays: a
// toolkit that is uninstalled removes its fact before its tools.
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

// watched returns the file of the fact, which need not exist, and its folders.
func (t Toolkit) watched() []string {
	if t.Root == nil {
		return nil
	}
	fact := t.Contract.Path(contract.ToolkitReady)
	return []string{t.Contract.Root, filepath.Dir(fact), fact}
}
