package app

import (
	"errors"
	"fmt"
	"io/fs"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
)

// facts returns the folder for the facts of this node's agents.
func (c Config) facts() contract.Dir {
	return contract.Dir{Root: c.RunRoot, ProcRoot: c.ProcRoot}
}

// report writes the fact that a CUDA program has run with the driver of this node.
func (c Config) report() error {
	version, err := driverproc.Root(c.ProcRoot).Version()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("report %s: %w", contract.CUDAReady, err)
	}
	if err := c.facts().Write(contract.CUDAReady, contract.Record{Writer: "vectoradd", DriverVersion: version}); err != nil {
		return fmt.Errorf("report %s: %w", contract.CUDAReady, err)
	}
	return nil
}
