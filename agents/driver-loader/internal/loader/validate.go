package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/driverproc"
)

// validate opens the driver's control device and each GPU, like NVML, so that the driver initializes the
// GPUs. A GPU that does not answer is only logged, unless all GPUs fail.
func (l *Loader) validate(ctx context.Context, o Observation) error {
	if err := l.open(ctx, filepath.Join(l.cfg.Nodes.Dev, "nvidiactl")); err != nil {
		return unanswered(o, err)
	}
	var errs []error
	driver := driverproc.Root(l.cfg.Kernel.Proc)
	buses := driver.BusIDs()
	for _, bus := range buses {
		g, err := driver.GPU(bus)
		if err == nil && g.Minor != driverproc.NoMinor {
			err = l.open(ctx, filepath.Join(l.cfg.Nodes.Dev, fmt.Sprintf("nvidia%d", g.Minor)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("GPU %s: %w", bus, err))
		}
	}
	if len(buses) == 0 {
		return unanswered(o, errors.New("it is bound to none of the GPUs"))
	}
	if len(errs) == len(buses) {
		return unanswered(o, errors.Join(errs...))
	}
	for _, err := range errs {
		l.cfg.Log.Error("gpu does not answer, continuing with the other gpus", "err", err)
	}
	return nil
}

// unanswered returns the cause for a driver that does not work.
func unanswered(o Observation, err error) error {
	return cause.New(cause.DriverDoesNotAnswer, "driver "+o.Running.Version, err.Error())
}

func openDevice(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// open opens and closes a device. It returns when ctx ends, even if the driver hangs.
func (l *Loader) open(ctx context.Context, path string) error {
	result := make(chan error, 1)
	go func() { result <- l.cfg.Open(path) }()
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("open %s: the driver does not answer: %w", path, ctx.Err())
	}
}
