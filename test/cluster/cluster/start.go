package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"outrigger.dev/test/cluster/internal/cgroup"
	"outrigger.dev/test/cluster/internal/fabric"
	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/machine"
	"outrigger.dev/test/cluster/internal/nodeinit"
	"outrigger.dev/test/cluster/internal/plan"
	"outrigger.dev/test/cluster/internal/render"
)

// initLimit is the time limit for the first process of a node to set up the node.
const initLimit = 30 * time.Second

// initComponent is the name of the first process of a node among the components.
const initComponent = "init"

// starter starts nodes.
type starter struct {
	cluster     *Cluster
	net         fabric.Fabric
	tree        cgroup.Tree
	credentials *render.Credentials
}

// start creates a node and returns when its first process accepts commands.
func (s starter) start(ctx context.Context, n plan.Node) error {
	spec := s.cluster.spec(n)
	files, err := render.Files(s.cluster.plan, n, s.cluster.options(n))
	if err != nil {
		return err
	}
	secrets, err := s.credentials.Node(n)
	if err != nil {
		return err
	}
	maps.Copy(files, secrets)
	if err := nodeinit.PrepareRoot(spec, files); err != nil {
		return err
	}
	if _, err := spec.Save(); err != nil {
		return err
	}
	if err := s.tree.Create(n.Name, "system"); err != nil {
		return err
	}
	if n.GPUs > 0 {
		driver := "on"
		if spec.Bare {
			driver = "off"
		}
		create := exec.CommandContext(ctx, filepath.Join(spec.BinDir, "gpu-sim"),
			"create", "--root", spec.GPUSim, "--name", n.Name, "--gpus", strconv.Itoa(n.GPUs), "--model", n.Model, "--driver", driver)
		if _, err := output(create); err != nil {
			return fmt.Errorf("create simulated GPUs of %s: %w", n.Name, err)
		}
	}
	if err := s.spawn(ctx, n, spec); err != nil {
		return componentError{n.Name, initComponent, err}
	}
	return nil
}

// spawn starts the first process of a node in new namespaces.
func (s starter) spawn(ctx context.Context, n plan.Node, spec nodeinit.Spec) error {
	log, err := os.OpenFile(spec.Log(initComponent), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of node %s: %w", n.Name, err)
	}
	defer func() { _ = log.Close() }()
	// The process is not bound to ctx, because the node runs longer than the process that creates it.
	command := spec.Command()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start first process of %s: %w", n.Name, err)
	}
	waitCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Reap the first process if the node ends while this process runs.
	go func() { cancel(fmt.Errorf("first process of %s ended: %w", n.Name, cmd.Wait())) }()
	if err := s.net.Join(n, cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	client := nodeinit.NewClient(spec)
	err = wait(waitCtx, initLimit, func(ctx context.Context) error {
		_, err := client.Status(ctx)
		return err
	})
	if err != nil && waitCtx.Err() != nil {
		return context.Cause(waitCtx)
	}
	return err
}

// options returns the options of the node's files.
func (c *Cluster) options(n plan.Node) render.Options {
	return render.Options{
		Components:       filepath.Join(c.binDir, componentFolder),
		Restart:          fmt.Sprintf("%s node-restart --dir %s", filepath.Join(c.binDir, "cluster"), machine.NodeDir(n.Name)),
		PauseImage:       image.PauseName,
		Cgroup:           "/" + filepath.Join(machine.Cgroup, n.Name),
		AuditLog:         nodeinit.LogFile(machine.NodeDir(n.Name), render.Audit),
		RestrictOOMScore: machine.LacksResourceCapability(),
	}
}
