package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// Config describes the node that Create makes.
type Config struct {
	// Root is the folder of the node. It must not exist.
	Root string
	// Spec describes the driver and the GPUs.
	Spec state.Spec
	// Libraries is the folder with the simulator's libnvidia-ml.so.1 and
	// libcuda.so.1.
	Libraries string
	// Program is the file of gpu-sim, which also simulates the driver's programs.
	Program string
	// Hook is the file of gpu-sim-hook, or empty. The agent needs it in the driver root, where a node
	// permits programs.
	Hook string
	// Host is the machine that simulates the node.
	Host Host
}

// Create makes the node. The folder appears complete or not at all.
func Create(cfg Config) (node *Node, err error) {
	if cfg.Root == "" {
		return nil, errors.New("create node: its folder has no name; name it with --root")
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("create node %s: %w", cfg.Root, err)
	}
	if err := cfg.Spec.Validate(); err != nil {
		return nil, fmt.Errorf("create node %s: %w", root, err)
	}
	if err := checkFree(root); err != nil {
		return nil, fmt.Errorf("create node %s: %w", root, err)
	}
	if err := checkLibraries(cfg.Libraries); err != nil {
		return nil, err
	}
	removeParents, err := makeParents(filepath.Dir(root))
	if err == nil {
		err = inParent(root, func() error { return writeNode(root, cfg) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create node %s: %w%s", root, err, rootHint(err)), removeParents())
	}
	return Open(root, cfg.Host)
}

// writeNode writes the node into a temporary folder and renames it to root. The caller holds the
// lock of the parent folder.
func writeNode(root string, cfg Config) (err error) {
	if err := checkFree(root); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(root), tempPrefix(root))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := render(temp, cfg); err != nil {
		return err
	}
	return os.Rename(temp, root)
}

func checkFree(root string) error {
	_, err := os.Lstat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if _, err := checkRoot(root); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w and is no node; choose another --root", fs.ErrExist)
	}
	return fmt.Errorf("%w; remove it with \"gpu-sim delete --root %s\", or choose another --root", fs.ErrExist, root)
}

// makeParents makes dir and its missing parents. It returns a function that removes the new
// folders.
func makeParents(dir string) (undo func() error, err error) {
	var made []string
	for d := dir; !isDir(d) && d != filepath.Dir(d); d = filepath.Dir(d) {
		made = append(made, d)
	}
	undo = func() error {
		for _, d := range made {
			// Another process may have made a node there.
			if err := os.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
				return err
			}
		}
		return nil
	}
	return undo, os.MkdirAll(dir, 0o755)
}

func checkLibraries(dir string) error {
	for _, l := range simulatedLibraries() {
		if _, err := os.Stat(filepath.Join(dir, l.soname)); err != nil {
			return fmt.Errorf("find the simulator's libraries: %w; build them with \"make sim\", or name their folder with --lib-dir", err)
		}
	}
	return nil
}

// render writes a node's files into an empty folder.
func render(dir string, cfg Config) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if cfg.Host.Dev != "" {
		cfg.Spec.DriverOff = true // the driver's device nodes are visible at once, so they come last
	}
	st, err := state.Create(filepath.Join(dir, stateFile), cfg.Spec)
	if err != nil {
		return err
	}
	snap := st.Show()
	if err := st.Close(); err != nil {
		return err
	}
	devices, err := os.ReadFile(cfg.Host.ProcDevices)
	if err != nil {
		return fmt.Errorf("read the majors in use: %w", err)
	}
	if hasRealDriver(string(devices)) {
		return fmt.Errorf("%s has major %d: NVIDIA's driver is loaded here, and a simulated GPU would be a real one; unload it or use another machine",
			cfg.Host.ProcDevices, nvidiaMajor)
	}
	entries, err := entries(snap, string(devices), cfg)
	if err != nil {
		return err
	}
	if err := tree.Write(dir, entries); err != nil {
		return err
	}
	if !snap.Driver.Loaded {
		return nil
	}
	return tree.Clone(filepath.Join(dir, driverRoot), filepath.Join(dir, containerRoot))
}

// entries returns the entries of a new node's folder, except for the state and the second copy of
// the driver root.
func entries(snap state.Snapshot, procDevices string, cfg Config) ([]tree.Entry, error) {
	all := []tree.Entry{
		tree.Dir(stageDir), tree.Dir(containerRoot), tree.Dir(procDriverDir), tree.Dir(sysDevices), {Path: firmwarePath, Mode: 0o644},
	}
	driver, err := driverTree(snap.Driver.Version, cfg.Libraries, cfg.Program)
	if err != nil {
		return nil, err
	}
	all = append(all, driver...)
	if cfg.Hook != "" {
		all = append(all, tree.Entry{Path: path.Join(containerRoot, hookFile), Mode: 0o755, Copy: cfg.Hook})
	}
	if cfg.Host.Dev == "" {
		all = append(all, devices()...)
	} else {
		all = append(all, tree.Symlink(devDir, cfg.Host.Dev))
	}
	parsed := parseDevices(procDevices)
	all = append(all, tree.File(procDevFile, parsed.render(snap.Driver.Loaded)))
	own := map[string]bool{}
	for _, g := range snap.GPUs {
		own[g.BusID] = true
		all = append(all, sysfs(g)...)
	}
	host, err := sysHost(os.DirFS(cfg.Host.PCIDevices))
	if err != nil {
		return nil, err
	}
	for _, e := range host {
		if !own[path.Base(e.Path)] {
			all = append(all, e)
		}
	}
	if snap.Driver.Loaded {
		for _, s := range loadSteps(snap, parsed.majors()) {
			all = append(all, s.entries...)
		}
	}
	return all, nil
}
