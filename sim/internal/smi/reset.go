package smi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"outrigger.dev/sim/internal/state"
)

// reset has the arguments of -r and -i.
type reset struct {
	// ids has indices, UUIDs and bus IDs.
	ids []string
}

// parseReset parses the arguments of a reset. It returns false for other arguments.
func parseReset(args []string) (reset, bool) {
	var r reset
	wanted := false
	for len(args) > 0 {
		key, value, given := strings.Cut(args[0], "=")
		args = args[1:]
		switch key {
		case "-r", "--gpu-reset":
			wanted = true
			continue
		case "-i", "--id":
		default:
			return r, false
		}
		if !given && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		r.ids = strings.Split(value, ",")
	}
	return r, wanted && len(r.ids) > 0
}

// run resets all GPUs, or none. It changes the state directly, because NVML has no function for it.
func (r reset) run(out io.Writer) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(self))) // of usr/bin
	files, err := filepath.Glob(filepath.Join(root, "lib/firmware/nvidia/*/gsp_sim.bin"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("reset: the driver is not loaded"), err)
	}
	s, err := state.Open(files[len(files)-1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := os.Stat(filepath.Join(root, "proc/driver/nvidia")); err != nil {
		root = "/"
	}
	if err := s.ShowAt(filepath.Join(root, "proc"), filepath.Join(root, "dev")); err != nil {
		return err
	}
	gpus, err := r.find(s.Show())
	if err != nil {
		return err
	}
	return resetAll(s, gpus, out)
}

// find returns the GPUs. On HGX boards with Ampere GPUs, all GPUs that NVSwitches link have to be
// reset together.
func (r reset) find(snap state.Snapshot) ([]state.GPU, error) {
	if !snap.Driver.Loaded {
		return nil, errors.New("reset: the driver is not loaded")
	}
	var gpus []state.GPU
	named := map[state.Slot]bool{}
	for _, id := range r.ids {
		at := -1
		for i, g := range snap.GPUs {
			// NVIDIA's programs write the domain with eight digits.
			if id == strconv.Itoa(g.Index) || id == g.UUID || strings.EqualFold(id, g.BusID) || strings.EqualFold(id, "0000"+g.BusID) {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("No devices were found: %s", id) //nolint:staticcheck // NVIDIA's text
		}
		gpus = append(gpus, snap.GPUs[at])
		named[snap.GPUs[at].Slot] = true
	}
	fabric := func(g state.GPU) bool { return g.NVLinks > 0 && g.ComputeCapability.Major == 8 }
	for _, g := range gpus {
		for _, peer := range snap.GPUs {
			if fabric(g) && fabric(peer) && !named[peer.Slot] {
				return nil, fmt.Errorf("GPU %s could not be reset: GPU %s is linked with it by NVSwitches, and has to be reset with it", g.BusID, peer.BusID)
			}
		}
	}
	return gpus, nil
}

// resetAll resets the GPUs, or none if a process uses one of them.
func resetAll(s *state.State, gpus []state.GPU, out io.Writer) error {
	for _, g := range gpus {
		if len(g.Processes) > 0 {
			return inUse(g)
		}
	}
	for _, g := range gpus {
		err := s.BeginReset(g.Slot)
		if errors.Is(err, state.ErrInUse) {
			return inUse(g) // a process in a container uses it
		}
		if err == nil {
			err = s.EndReset(g.Slot)
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "GPU %s was successfully reset.\n", g.BusID); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, "All done.")
	return errors.Join(err, s.ShowInstances())
}

func inUse(g state.GPU) error {
	return fmt.Errorf("The following GPUs could not be reset:\n  GPU %s: In use by another client", g.BusID) //nolint:staticcheck // NVIDIA's text
}
