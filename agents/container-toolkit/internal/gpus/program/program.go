// Package program is toolkit-gpus, which reads the GPUs of a node through NVML. It links C.
package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/command"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
)

// Main runs toolkit-gpus with the arguments args, of which the first is the name of the
// program, until ctx ends. It returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	program := &command.Command{
		Name:   gpus.Program,
		Usage:  "print the GPUs of the node, as NVML shows them, as JSON",
		Flags:  append(gpus.Flags(), &command.DurationFlag{Name: "timeout", Value: gpus.Timeout, Usage: "`TIME` after which to give up"}),
		Action: func(c *command.Context) error { return show(c, stdout) }, //nolint:contextcheck // it is in the Context
	}
	if err := command.Run(ctx, program, args, stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", gpus.Program, err)
		return 1
	}
	return 0
}

// show prints the GPUs as one line of JSON. It does not close the source: a call that
// hangs would hold that up, and the end of the process frees all.
func show(c *command.Context, stdout io.Writer) error {
	src, err := source(gpus.ConfigOf(c))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c, c.Duration("timeout"))
	defer cancel()
	node, err := src.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read GPUs: %w", err)
	}
	if err := json.NewEncoder(stdout).Encode(node); err != nil {
		return fmt.Errorf("print GPUs: %w", err)
	}
	return nil
}

func source(cfg gpus.Config) (*reader.Reader, error) {
	root, err := driverroot.New(cfg.DriverRoot())
	if err != nil {
		return nil, err
	}
	proc := driverproc.Root(cfg.ProcRoot)
	session := nvml.Config{DriverRoot: root, Proc: proc}
	// On a host without agents there is nobody to share NVML with.
	if info, err := os.Stat(cfg.RunRoot); err == nil && info.IsDir() {
		session.Lease = contract.Dir{Root: cfg.RunRoot, ProcRoot: cfg.ProcRoot}.NVML()
	}
	s, err := nvml.New(session)
	if err != nil {
		return nil, err
	}
	return reader.New(reader.Config{Session: s, Proc: proc, SysRoot: cfg.SysRoot}), nil
}
