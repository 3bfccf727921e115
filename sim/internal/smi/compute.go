package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// compute has the arguments of -c and -i.
type compute struct {
	mode uint32 // nvmlComputeMode_t
	ids  []string
}

// modeArguments returns the values of -c by their number in NVML.
func modeArguments() []string {
	return []string{"DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", exclusiveProcess}
}

const exclusiveProcess = "EXCLUSIVE_PROCESS"

// parseCompute parses the arguments of a change of the compute mode. It returns false for other
// arguments.
func parseCompute(args []string) (c compute, ok bool, err error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return c, false, nil // a command, such as dmon, with other options
	}
	list, err := options(args, "-i", "--id", "-c", "--compute-mode")
	isMode := func(o option) bool { return o.key == "-c" || o.key == "--compute-mode" }
	if !slices.ContainsFunc(list, isMode) {
		return c, false, nil
	}
	for _, o := range list {
		switch {
		case isMode(o):
			if c.mode, err = parseMode(o.value); err != nil {
				return c, true, err
			}
		case o.key == "-i", o.key == "--id":
			c.ids = strings.Split(o.value, ",")
		default:
			return c, true, notSimulated("-c with " + o.key)
		}
	}
	return c, true, err
}

// parseMode returns the number of a mode. The mode for one thread is deprecated, and stands for the
// mode for one process.
func parseMode(text string) (uint32, error) {
	for i, name := range modeArguments() {
		if strings.EqualFold(text, name) || text == fmt.Sprint(i) {
			if i == slices.Index(modeArguments(), "EXCLUSIVE_THREAD") {
				i = slices.Index(modeArguments(), exclusiveProcess)
			}
			return uint32(i), nil
		}
	}
	return 0, fmt.Errorf("compute mode %q: want 0 or DEFAULT, 2 or PROHIBITED, 3 or EXCLUSIVE_PROCESS", text)
}

// run sets the mode of the GPUs, until one rejects it.
func (c compute) run(out io.Writer) (err error) {
	lib, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.close()) }()
	readers, faults := query{ids: c.ids}.readers(lib)
	if faults != nil {
		return faults
	}
	for _, r := range readers {
		bus := device{pci: get[pciInfo](r, "nvmlDeviceGetPciInfo_v3")}.busID()
		text := "Set compute mode to %s for GPU %s.\n"
		if before := get[uint32](r, "nvmlDeviceGetComputeMode"); before.known && before.value == c.mode {
			text = "Compute mode is already set to %s for GPU %s.\n"
		} else if err := lib.setDevice(r.handle, "nvmlDeviceSetComputeMode", c.mode); err != nil {
			return fmt.Errorf("Unable to set the compute mode for GPU %s: %w", bus, err) //nolint:staticcheck // NVIDIA's text
		}
		if _, err := fmt.Fprintf(out, text, modeArguments()[c.mode], bus); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, "All done.")
	return err
}
