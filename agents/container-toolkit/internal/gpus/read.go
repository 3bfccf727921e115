package gpus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/text"
)

// grace is additional time for the program, to report that its time limit has passed.
const grace = 2 * time.Second

// Read returns the GPUs of the node, as NVML shows them. If NVML or Program is not installed,
// it returns the GPUs that the kernel driver shows: whole GPUs without brand, architecture and
// CUDA version. It returns an error if a GPU has MIG devices, which the kernel driver does not
// show. The error is contract.ErrClaimed while another program has claimed NVML.
func Read(ctx context.Context, cfg Config) (*gpu.Node, error) {
	root, err := driverroot.New(cfg.DriverRoot())
	if err != nil {
		return nil, err
	}
	if _, err := root.FindLibrary(driverroot.NVML); err != nil {
		return fromProc(cfg, err)
	}
	node, err := cfg.await(ctx)
	// The program does not exist, or its C library does not.
	if errors.Is(err, fs.ErrNotExist) {
		return fromProc(cfg, err)
	}
	return node, err
}

// await runs the program, and again while another program has claimed NVML, for at most LeaseWait.
func (c Config) await(ctx context.Context) (*gpu.Node, error) {
	node, err := c.run(ctx)
	if c.LeaseWait == 0 || !errors.Is(err, contract.ErrClaimed) {
		return node, err
	}
	if c.Waiting != nil {
		c.Waiting(err)
	}
	wait, cancel := context.WithTimeout(ctx, c.LeaseWait)
	defer cancel()
	err = contract.Dir{Root: c.RunRoot, ProcRoot: c.ProcRoot}.NVML().Await(wait, func() error {
		node, err = c.run(ctx)
		return err
	})
	switch {
	case err == nil:
		return node, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, contract.ErrClaimed):
		return nil, fmt.Errorf("waited %s for the exclusive use of NVML by another program to end: %w", c.LeaseWait, err)
	}
	return nil, err
}

// claimedError is contract.ErrClaimed with the message of the program.
type claimedError struct{ text string }

// Error returns the message of the program.
func (e claimedError) Error() string { return e.text }

// Unwrap returns contract.ErrClaimed.
func (claimedError) Unwrap() error { return contract.ErrClaimed }

// run runs the program once.
func (c Config) run(ctx context.Context) (*gpu.Node, error) {
	limit := cmp.Or(c.Timeout, Timeout)
	ctx, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	cmd := c.Command(ctx, "--timeout="+limit.String())
	// A call that hangs in the kernel keeps the process, which keeps the pipes open.
	cmd.WaitDelay = grace
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Path, cause(ctx, err, limit))
	}
	node, err := gpu.Decode(out)
	if err != nil {
		return nil, fmt.Errorf("read the output of %s: %w", cmd.Path, err)
	}
	return node, nil
}

// cause returns why the program failed. It prefers the program's own message.
func cause(ctx context.Context, err error, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the driver did not answer within %s (see the kernel log: dmesg)", limit)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
	if last := strings.TrimPrefix(text.Printable(lines[len(lines)-1]), Program+": "); last != "" && exit.Exited() {
		if exit.ExitCode() == ClaimedCode {
			return claimedError{last}
		}
		return errors.New(last)
	}
	return fmt.Errorf("the driver's library ended it: %w", err)
}

// fromProc returns the GPUs that the kernel driver shows. why is the reason not to use NVML.
func fromProc(cfg Config, why error) (*gpu.Node, error) {
	proc := driverproc.Root(cfg.ProcRoot)
	version, err := proc.Version()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the kernel module nvidia is not loaded", gpu.ErrNoDriver)
	}
	if err != nil {
		return nil, err
	}
	n := &gpu.Node{Driver: gpu.Driver{Version: version}}
	for index, id := range proc.BusIDs() {
		g, err := proc.GPU(id)
		if err != nil {
			return nil, err
		}
		switch {
		case g.UUID == "" || g.Minor == driverproc.NoMinor:
			return nil, fmt.Errorf("read GPU %s: the driver has not initialized it, so its UUID is unknown, and NVML, which initializes it, cannot be used: %w", id, why)
		case len(proc.GPUInstances(g.Minor)) > 0:
			return nil, fmt.Errorf("read MIG devices of GPU %s: only NVML lists them, and NVML cannot be used: %w", id, why)
		}
		n.GPUs = append(n.GPUs, gpu.GPU{
			Index: index, UUID: g.UUID, Minor: g.Minor, Name: g.Name, PCI: gpu.PCI{BusID: id}, NUMANode: pci.NUMANode(cfg.SysRoot, id),
		})
	}
	cfg.Pins().Apply(n)
	return n, nil
}
