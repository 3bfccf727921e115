package ctk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/modprobe"
	"outrigger.dev/pkg/devnode"
)

// systemCommand returns "nvidia-ctk system".
func (p *program) systemCommand() *cli.Command {
	s := &system{driver: "/proc", stdout: p.stdout}
	return &cli.Command{
		Name:        "system",
		Usage:       "create device nodes of the driver, and links to them",
		Subcommands: []*cli.Command{s.nodesCommand(), s.linksCommand()},
	}
}

// flags returns the flags that both commands share.
func (s *system) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "driver-root", Aliases: []string{"root"}, EnvVars: []string{"NVIDIA_DRIVER_ROOT", "DRIVER_ROOT"}, Value: "/", Destination: &s.driverRoot,
			Usage: "root `FOLDER` of the driver, whose modprobe loads kernel modules",
		},
		&cli.StringFlag{
			Name: "dev-root", EnvVars: []string{"NVIDIA_DEV_ROOT", "DEV_ROOT"}, DefaultText: "the driver root", Destination: &s.devRoot,
			Usage: "`FOLDER` in which dev has the device nodes",
		},
		&cli.BoolFlag{Name: "load-kernel-modules", EnvVars: []string{"LOAD_KERNEL_MODULES"}, Destination: &s.load, Usage: "first load nvidia, nvidia-uvm and nvidia-modeset, with modprobe of the driver root"},
		&cli.BoolFlag{Name: "dry-run", EnvVars: []string{"DRY_RUN"}, Destination: &s.dry, Usage: "print the changes, and do not make them"},
	}
}

func (s *system) nodesCommand() *cli.Command {
	var control, gpus bool
	return &cli.Command{
		Name:  "create-device-nodes",
		Usage: "create the device nodes of the driver",
		Flags: append(
			s.flags(),
			&cli.BoolFlag{Name: "control-devices", EnvVars: []string{"CREATE_CONTROL_DEVICES"}, Destination: &control, Usage: "create nvidiactl, nvidia-modeset, nvidia-uvm and nvidia-uvm-tools"},
			&cli.BoolFlag{Name: "gpu-devices", EnvVars: []string{"CREATE_GPU_DEVICES"}, Destination: &gpus, Usage: "create the device nodes of the GPUs and of MIG capabilities"},
		),
		Action: func(c *cli.Context) error {
			if !control && !gpus && !s.load {
				return errors.New("nothing to do: set --control-devices, --gpu-devices or --load-kernel-modules")
			}
			if err := s.modules(c.Context); err != nil {
				return err
			}
			return s.makeNodes(control, gpus)
		},
	}
}

func (s *system) linksCommand() *cli.Command {
	var char string
	var all, control bool
	return &cli.Command{
		Name:  "create-dev-char-symlinks",
		Usage: "create the links in /dev/char to the driver's device nodes; without them, running containers lose their GPUs at systemctl daemon-reload",
		Flags: append(
			s.flags(),
			&cli.StringFlag{Name: "dev-char-path", EnvVars: []string{"DEV_CHAR_PATH"}, Value: "/dev/char", Destination: &char, Usage: "`FOLDER` of the links"},
			&cli.BoolFlag{Name: "create-all", EnvVars: []string{"CREATE_ALL"}, Destination: &all, Usage: "also create links for device nodes that do not exist yet, of all GPUs and possible MIG instances"},
			&cli.BoolFlag{Name: "create-device-nodes", EnvVars: []string{"CREATE_DEVICE_NODES"}, Destination: &control, Usage: "first create nvidiactl, nvidia-modeset, nvidia-uvm and nvidia-uvm-tools"},
		),
		Action: func(c *cli.Context) error {
			if err := s.modules(c.Context); err != nil {
				return err
			}
			if err := s.makeNodes(control, false); err != nil {
				return err
			}
			return s.makeLinks(char, all)
		},
	}
}

// system makes nodes and links. Its fields are the values of the flags.
type system struct {
	driverRoot, devRoot string
	load, dry           bool
	driver              devnode.Driver
	stdout              io.Writer
}

// dev returns the folder of the device nodes.
func (s *system) dev() string { return filepath.Join(cmp.Or(s.devRoot, s.driverRoot), "dev") }

// modules loads missing kernel modules if --load-kernel-modules is set.
func (s *system) modules(ctx context.Context) error {
	if !s.load {
		return nil
	}
	missing := modprobe.Unloaded("/sys")
	for _, name := range missing {
		fmt.Fprintf(s.stdout, "load kernel module %s with /sbin/modprobe of %s\n", name, s.driverRoot)
	}
	if s.dry {
		return nil
	}
	return modprobe.Load(ctx, s.driverRoot, missing)
}

// makeNodes makes the control nodes and the nodes of GPUs.
func (s *system) makeNodes(control, gpus bool) error {
	var wanted []devnode.Node
	for _, part := range []struct {
		on   bool
		read func() ([]devnode.Node, error)
	}{{control, s.driver.Control}, {gpus, s.driver.GPUs}} {
		if !part.on {
			continue
		}
		more, err := part.read()
		if err != nil {
			return err
		}
		wanted = append(wanted, more...)
	}
	plan, err := devnode.Nodes(s.dev(), wanted)
	return s.apply(plan, errors.Join(err, devnode.Left(s.dev(), wanted)))
}

// makeLinks makes links to the existing nodes and, if all is set, to all possible nodes.
func (s *system) makeLinks(char string, all bool) error {
	linked, err := devnode.Existing(s.dev())
	if err != nil {
		return err
	}
	if all {
		for _, read := range []func() ([]devnode.Node, error){s.driver.Control, s.driver.GPUs, s.driver.Possible} {
			more, err := read()
			if err != nil {
				return err
			}
			linked = append(linked, more...)
		}
	}
	plan, err := devnode.Links(s.dev(), char, devnode.Once(linked))
	return s.apply(plan, err)
}

// apply prints and executes the plan. err is the reason why a part of the work is not in the plan.
// apply returns it with its own error.
func (s *system) apply(plan devnode.Plan, err error) error {
	for _, step := range plan {
		fmt.Fprintln(s.stdout, step)
	}
	if s.dry {
		return err
	}
	return errors.Join(plan.Apply(), err)
}
