package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// step is a group of entries. tops has the topmost new paths of the entries. The tops appear one by
// one, in this order, and each appears complete.
type step struct {
	entries []tree.Entry
	tops    []string
}

// singleStep returns a step with one entry.
func singleStep(e tree.Entry) step { return step{[]tree.Entry{e}, []string{e.Path}} }

// loadSteps returns the entries that the kernel shows after the driver is loaded, in the order of a
// real load: procfs, the binding of the GPUs, device nodes.
func loadSteps(snap state.Snapshot, m majors) []step {
	return append(moduleSteps(snap), nodeSteps(snap, m)...)
}

func moduleSteps(snap state.Snapshot) []step {
	entries := procfs(snap.Driver)
	var bound []step
	for _, g := range snap.GPUs {
		entries = append(entries, procfsGPU(snap.Driver.Version, g)...)
		bound = append(bound, singleStep(sysDriver(g)))
	}
	return append([]step{{entries, []string{procCaps, procNvidia}}}, bound...)
}

func nodeSteps(snap state.Snapshot, m majors) []step {
	var gpus []step
	for _, g := range snap.GPUs {
		gpus = append(gpus, singleStep(devGPU(g)))
	}
	if count := snap.Driver.IMEXChannels; count > 0 {
		gpus = append(gpus, step{devChannels(m, count), []string{devIMEX}})
	}
	common := step{devDriver(m), []string{devCaps, devUVM, devTools, devModeset, devCtl}}
	return append(gpus, common)
}

// gpuSteps returns the entries that the kernel shows for a GPU that is plugged later.
func gpuSteps(snap state.Snapshot, g state.GPU) []step {
	steps := []step{{sysfs(g), []string{sysGPU(g)}}}
	if !snap.Driver.Loaded {
		return steps
	}
	proc := step{procfsGPU(snap.Driver.Version, g), []string{path.Join(procGPUs, g.BusID)}}
	if g.MIGCapable {
		proc.tops = append(proc.tops, procCapabilities(g))
	}
	return append(steps, proc, singleStep(sysDriver(g)), singleStep(devGPU(g)))
}

// install makes the entries of all steps appear. On an error, it removes them again.
func (n *Node) install(steps []step) (err error) {
	stage, err := os.MkdirTemp(n.path(stageDir), "new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	for i, s := range steps {
		if err := n.installStep(stage, s); err != nil {
			return errors.Join(err, n.remove(steps[:i+1]))
		}
	}
	return nil
}

func (n *Node) installStep(stage string, s step) error {
	if err := tree.Write(stage, s.entries); err != nil {
		return err
	}
	for _, top := range s.tops {
		if err := os.MkdirAll(filepath.Dir(n.path(top)), 0o755); err != nil {
			return err
		}
		if err := replace(filepath.Join(stage, top), n.path(top)); err != nil {
			return fmt.Errorf("show /%s: %w", top, err)
		}
	}
	return nil
}

// replace renames the path from to the path to. If another process has created a folder at the new
// path, replace removes this folder. An agent creates it when it makes device nodes as soon as
// procfs shows the driver.
func replace(from, to string) error {
	err := move(from, to)
	for tries := 0; errors.Is(err, fs.ErrExist) && tries < 10; tries++ {
		err = errors.Join(os.RemoveAll(to), move(from, to))
	}
	return err
}

// remove removes the entries of the steps in reverse order. A missing entry is not an error.
func (n *Node) remove(steps []step) (err error) {
	stage, err := os.MkdirTemp(n.path(stageDir), "old-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	count := 0
	for _, s := range slices.Backward(steps) {
		for _, top := range slices.Backward(s.tops) {
			count++
			err := discard(n.path(top), filepath.Join(stage, fmt.Sprint(count)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("hide /%s: %w", top, err)
			}
		}
	}
	return nil
}

// devices reads the majors that the machine uses.
func (n *Node) devices() (procDevices, error) {
	text, err := os.ReadFile(n.host.ProcDevices)
	if err != nil {
		return procDevices{}, fmt.Errorf("read the majors in use: %w", err)
	}
	return parseDevices(string(text)), nil
}

// showDevices writes /proc/devices. The file keeps its inode, because it is mounted elsewhere.
func (n *Node) showDevices(p procDevices, loaded bool) error {
	f, err := os.OpenFile(n.path(procDevFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	text := p.render(loaded)
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}
