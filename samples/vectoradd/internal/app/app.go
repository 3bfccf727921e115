// Package app implements vectoradd's command line and its steps.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/samples/vectoradd/internal/cuda"
	"outrigger.dev/samples/vectoradd/internal/devnode"
	"outrigger.dev/samples/vectoradd/internal/kernel"
	"outrigger.dev/samples/vectoradd/internal/nvml"
)

const minVersion = cuda.Version(kernel.MinCUDA)

// errNoDevice means that CUDA works, but this process sees no device.
var errNoDevice = errors.New("list devices: no device is visible")

const description = `Adds two vectors on a GPU and checks every element of the sum. Exit code 0
means that every element is right; otherwise it prints the cause and the fix.

CUDA's own variables apply too, for example CUDA_VISIBLE_DEVICES, which selects
and orders the devices that --list and --device count.`

// Config is the configuration from the command line.
type Config struct {
	// Library is the file or the name of libcuda.so.1.
	Library string
	// DevRoot is the folder that contains dev/, "/" except in tests.
	DevRoot string
	// Device is the index among the visible devices.
	Device int
	// AllDevices adds on each visible device, instead of Device.
	AllDevices bool
	// Copies also copies between the host and the devices, and between devices.
	Copies bool
	// Elements is the length of the vectors.
	Elements int
	// List prints the visible devices and adds nothing.
	List bool
	// Report writes the fact cuda-ready below RunRoot if the sum is right.
	Report bool
	// RunRoot is the folder through which the agents of a node communicate.
	RunRoot string
	// ProcRoot is the folder of the host's /proc.
	ProcRoot string
}

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	var c Config
	out := &output{w: stdout}
	app := &cli.App{
		Name:        "vectoradd",
		Usage:       "check that a GPU computes",
		UsageText:   "vectoradd [--list] [--device N | --all-devices] [--copies] [--elements N]",
		Description: description,
		Flags:       flags(&c),
		Writer:      out,
		ErrWriter:   stderr,
		Action:      func(*cli.Context) error { return Run(c, out) },
		After: func(*cli.Context) error {
			if out.err != nil {
				return fmt.Errorf("print the result: %w: free space, or redirect the output", out.err)
			}
			return nil
		},
	}
	return cmdline.Exec(context.Background(), app, args)
}

// output keeps the first error of w. The program must fail if it cannot print its result.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

func flags(c *Config) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "list", EnvVars: []string{"VECTORADD_LIST"}, Destination: &c.List,
			Usage: "print the visible devices, one per line, as nvidia-smi -L does, and exit",
		},
		cmdline.Check(&cli.IntFlag{
			Name: "device", EnvVars: []string{"VECTORADD_DEVICE"}, Destination: &c.Device,
			Usage: "`INDEX` of the device to use, as shown by --list",
		}, "0 or more", func(n int) bool { return 0 <= n && n <= math.MaxInt32 }),
		&cli.BoolFlag{
			Name: "all-devices", EnvVars: []string{"VECTORADD_ALL_DEVICES"}, Destination: &c.AllDevices,
			Usage: "add on each visible device, and name all devices that fail",
		},
		&cli.BoolFlag{
			Name: "copies", EnvVars: []string{"VECTORADD_COPIES"}, Destination: &c.Copies,
			Usage: "also copy between the host and the device, and between all devices with --all-devices; check the copies, and print their rates",
		},
		cmdline.Check(&cli.IntFlag{
			Name: "elements", EnvVars: []string{"VECTORADD_ELEMENTS"}, Destination: &c.Elements, Value: 50_000,
			Usage: "length of the vectors",
		}, fmt.Sprintf("1 to %d", kernel.MaxElements), func(n int) bool { return 1 <= n && n <= kernel.MaxElements }),
		&cli.StringFlag{
			Name: "cuda-library", EnvVars: []string{"CUDA_LIBRARY"}, Destination: &c.Library, Value: "libcuda.so.1",
			Usage: "CUDA driver library: a `FILE`, or a name that the dynamic linker finds",
		},
		&cli.StringFlag{
			Name: "dev-root", EnvVars: []string{"NVIDIA_DEV_ROOT"}, Destination: &c.DevRoot, Value: "/",
			Usage: "`FOLDER` whose dev/ is checked to explain a CUDA error",
		},
		&cli.BoolFlag{
			Name: "report", EnvVars: []string{"VECTORADD_REPORT"}, Destination: &c.Report,
			Usage: "report to the agents of this node that CUDA works (cuda-ready), after taking back an earlier report",
		},
		&cli.StringFlag{
			Name: "run-root", EnvVars: []string{"RUN_ROOT"}, Destination: &c.RunRoot, Value: "/run/nvidia",
			Usage: "`FOLDER` through which the agents of this node communicate",
		},
		&cli.StringFlag{
			Name: "proc-root", EnvVars: []string{"PROC_ROOT"}, Destination: &c.ProcRoot, Value: "/proc",
			Usage: "`FOLDER` that has the host's driver/nvidia/version",
		},
	}
}

// fault returns why this process has no GPU, with the fix, or "".
func (c Config) fault() string {
	library := "libnvidia-ml.so.1"
	if dir := filepath.Dir(c.Library); filepath.IsAbs(dir) {
		library = filepath.Join(dir, library)
	}
	answer := nvml.Ask(library)
	if len(answer.Lost) > 0 {
		return fmt.Sprintf("GPU %d is lost: it has fallen off the bus or needs a reset; see the kernel log (dmesg | grep Xid), "+
			"and reset the GPU (nvidia-smi --gpu-reset) or restart the node", answer.Lost[0])
	}
	return devnode.Check(c.DevRoot).Fault(answer.Loaded)
}

// Run runs vectoradd with the configuration c and explains its errors.
func Run(c Config, stdout io.Writer) error {
	if c.Report && c.List {
		return errors.New("--report and --list are both given: --list computes nothing that could be reported; remove one of them")
	}
	if c.AllDevices && c.Device != 0 {
		return errors.New("--all-devices and --device are both given: remove one of them")
	}
	if c.Report {
		// Remove the fact first, so that no earlier fact remains if this run fails or is killed.
		if err := c.facts().Remove(contract.CUDAReady); err != nil {
			return err
		}
	}
	err := run(c, stdout)
	if err == nil && c.Report {
		return c.report()
	}
	if err == nil {
		return nil
	}
	return explain(err, c.fault())
}

func run(c Config, stdout io.Writer) error {
	library, err := cuda.Open(c.Library)
	if err != nil {
		return err
	}
	defer library.Close()
	devices, err := devices(library)
	if err != nil {
		return err
	}
	if c.List {
		for _, d := range devices {
			fmt.Fprintf(stdout, "GPU %d: %s (UUID: %s)\n", d.Index, d.Name, d.UUID)
		}
		return nil
	}
	if c.Device >= len(devices) {
		return fmt.Errorf("choose device %d: only %d visible, counted from 0: vectoradd --list shows them", c.Device, len(devices))
	}
	if !c.AllDevices {
		devices = devices[c.Device : c.Device+1]
	}
	return c.check(library, devices, stdout)
}

// check adds on each device, and copies if the flags ask for it.
func (c Config) check(library *cuda.Library, devices []cuda.Device, stdout io.Writer) error {
	var errs []error
	for _, d := range devices {
		if c.AllDevices {
			fmt.Fprintf(stdout, "GPU %d: %s (UUID: %s)\n", d.Index, d.Name, d.UUID)
		}
		errs = append(errs, add(library, d, c.Elements, stdout))
	}
	if c.Copies {
		errs = append(errs, copies(library, devices, stdout))
	}
	return errors.Join(errs...)
}

// devices initializes the driver and returns the devices that this process may use.
func devices(library *cuda.Library) ([]cuda.Device, error) {
	// Check the version first, because later errors of an old driver explain less.
	version, err := library.Version()
	if err != nil {
		return nil, err
	}
	if version < minVersion {
		return nil, fmt.Errorf("use the driver: it supports CUDA %s, and %s or newer is needed: update the NVIDIA driver", version, minVersion)
	}
	if err := library.Init(); err != nil {
		return nil, err
	}
	devices, err := library.Devices()
	if err == nil && len(devices) == 0 {
		err = errNoDevice
	}
	return devices, err
}
