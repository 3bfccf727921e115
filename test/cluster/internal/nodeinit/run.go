package nodeinit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"outrigger.dev/test/cluster/internal/cgroup"
)

// nodePath is the search path of programs on a node, after the cluster's own folders.
const nodePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Path returns the search path of programs on a node.
func (s Spec) Path() string {
	return strings.Join([]string{filepath.Join(s.BinDir, "cluster-components"), s.BinDir, nodePath}, ":")
}

// Run is the first process of the node whose folder is dir. Its process must be started in
// new mount, network, PID, UTS and IPC namespaces. It returns when ctx ends, and the whole
// node ends with it.
func Run(ctx context.Context, dir string, log *slog.Logger) error {
	s, err := Load(dir)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("run node %s: not the first process of a PID namespace: start nodes with cluster up", s.Name)
	}
	if err := setUp(ctx, s); err != nil {
		return err
	}
	log.Info("node set up", "node", s.Name)
	return Serve(ctx, s, log)
}

// Serve supervises the components of the spec and accepts commands at its socket, until ctx
// ends.
func Serve(ctx context.Context, s Spec, log *slog.Logger) error {
	supervisor := NewSupervisor(s.Components, s.Log, log)
	// Catch SIGHUP before a component starts. If this process was started by nohup, it would ignore
	// SIGHUP, and the components would inherit that: containerd would not end after SIGHUP.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		supervisor.Run(ctx)
		return nil
	})
	group.Go(func() error { return serve(ctx, s.Socket(), handler(supervisor)) })
	return group.Wait()
}

// setUp sets up the node's cgroup, host name, root file system and network.
func setUp(ctx context.Context, s Spec) error {
	tree, err := cgroup.Find(cgroup.MountPoint, s.Cgroup)
	if err != nil {
		return err
	}
	// Pods get cgroups next to this one, because version 2 allows processes only in leaves.
	if err := tree.Enter(s.Name, "system"); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("set host name of %s: %w", s.Name, err)
	}
	if err := enterRoot(s); err != nil {
		return err
	}
	// Both settings apply only to the node's network namespace.
	for _, name := range []string{"ipv4/ip_forward", "ipv4/conf/all/route_localnet"} {
		if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte("1"), 0); err != nil {
			return fmt.Errorf("configure network of %s: %w", s.Name, err)
		}
	}
	if err := os.Setenv("PATH", s.Path()); err != nil {
		return fmt.Errorf("set search path of %s: %w", s.Name, err)
	}
	if s.GPUSim == "" {
		return nil
	}
	driverRoot := "/"
	if s.Bare {
		driverRoot = "none"
	}
	out, err := exec.CommandContext(ctx, s.gpuSim(), "mount", "--root", s.GPUSim, "--driver-root", driverRoot).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount simulated GPUs of %s: %w: %s", s.Name, err, out)
	}
	return nil
}
