package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/kernel"
	"outrigger.dev/sim/internal/kmod"
	"outrigger.dev/sim/internal/node"
)

// listenerFlag is a hidden flag of the child process that serves system calls.
const listenerFlag = "listener"

// listenerFD is the first file descriptor after the standard ones.
const listenerFD = 3

func kernelCommand() *cli.Command {
	var fd int
	return command{
		name: "kernel", args: "-- COMMAND [ARGUMENT…]", usage: "run a command on a kernel that loads modules",
		description: "The command replaces gpu-sim. For it and all programs that it starts, gpu-sim serves the system calls that load and unload " +
			"modules. Use it in \"gpu-sim exec --driver-root none\", whose node has no driver.",
		flags: []cli.Flag{&cli.IntFlag{Name: listenerFlag, Destination: &fd, Hidden: true}},
		max:   -1,
		run: func(c *cli.Context, n *node.Node) error {
			if fd != 0 {
				go func() { fmt.Fprintln(os.Stderr, node.FollowInstances(c.Context, n.Root(), node.Machine(), false)) }()
				return kernel.Serve(os.NewFile(uintptr(fd), "seccomp"), n, os.Stderr) //nolint:gosec // listenerFD
			}
			if c.NArg() == 0 {
				return errors.New("kernel: no command; usage: gpu-sim kernel [options] -- COMMAND [ARGUMENT…]")
			}
			return runOnKernel(n, c.Args().Slice())
		},
	}.cli()
}

// runOnKernel starts the simulated kernel as a child process, and executes the command.
func runOnKernel(n *node.Node, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find gpu-sim itself: %w", err)
	}
	listener, err := kernel.Attach()
	if err != nil {
		return err
	}
	// This process becomes the process of the command. The child ends when the process ends.
	serve := exec.Command(self, "kernel", "--root", n.Root(), fmt.Sprintf("--%s=%d", listenerFlag, listenerFD)) //nolint:noctx // the process outlives this function
	serve.ExtraFiles, serve.Stderr = []*os.File{listener}, os.Stderr
	serve.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	if err := serve.Start(); err != nil {
		return fmt.Errorf("start the simulated kernel: %w", err)
	}
	return errors.Join(execute(args), serve.Process.Kill())
}

func imageCommand() *cli.Command {
	var version string
	var fails int
	return command{
		name: "image", args: "FOLDER", usage: "write the root folder of a driver image",
		description: "It has the files of a driver, and modules for the running kernel that \"gpu-sim kernel\" loads.",
		flags: []cli.Flag{
			&cli.StringFlag{Name: "driver-version", Destination: &version, Usage: "`VERSION` of the driver; if empty, the version of the node's driver"},
			&cli.IntFlag{Name: "fails", Destination: &fails, Usage: "number `ERRNO` of the error with which the module nvidia fails to load"},
		},
		min: 1, max: 1,
		run: func(c *cli.Context, n *node.Node) error {
			version = cmp.Or(version, n.State().Show().Driver.Version)
			release, err := node.Release()
			if err != nil {
				return err
			}
			modules := kmod.Stack(version, release)
			modules[0].Fails = unix.Errno(fails) //nolint:gosec // checked by the kernel
			return n.WriteImage(c.Args().First(), version, release, modules)
		},
	}.cli()
}
