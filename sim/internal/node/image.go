package node

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"outrigger.dev/sim/internal/kmod"
	"outrigger.dev/sim/internal/tree"
)

// WriteImage writes the root folder of a driver image to dir, which must not exist. The image has
// the driver's files of this node, and kernel modules. Its file for the state is empty, and
// LoadModule mounts the state over it.
func (n *Node) WriteImage(dir, version, release string, modules []kmod.Module) error {
	entries, err := driverTree(version, n.path(libDir), n.path(binDir, "nvidia-smi"))
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.Path = strings.TrimPrefix(e.Path, driverRoot+"/")
		switch {
		case e.Link == stateFile:
			e.Link = ""
		case e.Link != "":
			e = tree.Symlink(e.Path, path.Base(e.Link))
		}
		entries[i] = e
	}
	for _, m := range modules {
		file, err := m.File()
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(m.Name, "_", "-") + ".ko"
		entries = append(entries, tree.Entry{Path: path.Join("lib/modules", release, "updates", name), Mode: 0o644, Data: file})
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // for all, as a root folder
		return fmt.Errorf("write driver image: %w", err)
	}
	if err := tree.Write(filepath.Clean(dir), entries); err != nil {
		return fmt.Errorf("write driver image %s: %w", dir, err)
	}
	return nil
}
