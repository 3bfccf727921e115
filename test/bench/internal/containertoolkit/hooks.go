package containertoolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/bench/internal/report"
)

// hookFigures returns the figures of a GPU container's hooks, without a runtime.
func (s *scene) hookFigures(ctx context.Context) ([]figure, error) {
	hook, err := s.injected(ctx)
	if err != nil {
		return nil, err
	}
	image, err := s.driverImage()
	if err != nil {
		return nil, err
	}
	config, err := s.config(ctx, "direct", s.stub, "legacy", "nvidia-container-cli.no-cgroups=true")
	if err != nil {
		return nil, err
	}
	const nothing = "nvidia-cdi-hook noop"
	return []figure{
		{name: nothing, prepare: func(ctx context.Context, i int) (*start, error) {
			return s.createContainer(ctx, ociHook{Path: hook.Path, Args: []string{hook.Args[0], "noop"}, Env: hook.Env}, "", i)
		}},
		{
			name: "createContainer hook", base: nothing, goal: report.Goal{Peer: "6 processes, 45 ms", Target: 5},
			prepare: func(ctx context.Context, i int) (*start, error) { return s.createContainer(ctx, hook, image, i) },
		},
		{
			name: "prestart hook with nvidia-container-cli", base: nothing,
			prepare: func(ctx context.Context, i int) (*start, error) { return s.prestart(ctx, config, i) },
		},
	}, nil
}

type ociHook struct {
	Path string
	Args []string
	Env  []string
}

// injected returns the createContainer hook that the runtime adds to a GPU container.
func (s *scene) injected(ctx context.Context) (ociHook, error) {
	config, err := s.config(ctx, "hook", s.stub, "cdi")
	if err != nil {
		return ociHook{}, err
	}
	dir, id, err := s.bundle(0, "", visible)
	if err != nil {
		return ociHook{}, err
	}
	if err := s.command(ctx, config, s.tool(shim), s.arguments(dir, "create", id)...).Run(); err != nil {
		return ociHook{}, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return ociHook{}, err
	}
	var spec struct {
		Hooks struct{ CreateContainer []ociHook }
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return ociHook{}, err
	}
	if n := len(spec.Hooks.CreateContainer); n != 1 {
		return ociHook{}, fmt.Errorf("read the hooks of a GPU container: there are %d createContainer hooks, want 1", n)
	}
	return spec.Hooks.CreateContainer[0], nil
}

// driverImage makes a copy of the image with the files that the CDI spec mounts, and returns its
// folder. runc would have mounted them.
func (s *scene) driverImage() (string, error) {
	dir := s.path("image-with-driver")
	if err := clone(s.path("image"), dir); err != nil {
		return "", err
	}
	data, err := os.ReadFile(s.path("cdi/nvidia.com-gpu.json"))
	if err != nil {
		return "", err
	}
	var spec struct {
		ContainerEdits struct {
			Mounts []struct{ HostPath, ContainerPath string }
		}
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return "", err
	}
	for _, m := range spec.ContainerEdits.Mounts {
		info, err := os.Stat(m.HostPath)
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(m.HostPath)
		if err != nil {
			return "", err
		}
		if err := write(filepath.Join(dir, m.ContainerPath), data, info.Mode().Perm()); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// createContainer returns the start of a createContainer hook.
func (s *scene) createContainer(ctx context.Context, hook ociHook, image string, i int) (*start, error) {
	dir, id, err := s.bundle(i, image, visible)
	if err != nil {
		return nil, err
	}
	st := &start{cmd: s.command(ctx, "", hook.Path, hook.Args[1:]...)}
	st.cmd.Env = hook.Env
	if image != "" {
		st.check = func() error { return hasDriver(filepath.Join(dir, "rootfs")) }
	}
	stdin, err := state(dir, id, os.Getpid())
	if err != nil {
		return nil, err
	}
	st.cmd.Stdin = stdin
	st.clean = func() error {
		// The hook mounts in the container's mount namespace, which is the node's mount namespace
		// here.
		_ = unix.Unmount(filepath.Join(dir, "rootfs/proc/driver/nvidia/params"), unix.MNT_DETACH)
		return errors.Join(stdin.Close(), os.RemoveAll(dir))
	}
	return st, nil
}

// prestart returns the start of the prestart hook, for a process that waits in a separate mount
// namespace. The process has no separate cgroup, so the hook's work on cgroups is not measured.
func (s *scene) prestart(ctx context.Context, config string, i int) (*start, error) {
	dir, id, err := s.bundle(i, s.path("image"), visible)
	if err != nil {
		return nil, err
	}
	container := exec.CommandContext(ctx, s.stub)
	container.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := container.Start(); err != nil {
		return nil, err
	}
	end := func() error {
		err := container.Process.Kill()
		_ = container.Wait()
		return errors.Join(err, os.RemoveAll(dir))
	}
	stdin, err := state(dir, id, container.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	st := &start{cmd: s.command(ctx, "", s.tool("nvidia-container-runtime-hook"), "-config", config, "prestart")}
	st.cmd.Stdin = stdin
	st.check = func() error {
		return hasDriver(filepath.Join("/proc", fmt.Sprint(container.Process.Pid), "root", dir, "rootfs"))
	}
	st.clean = func() error { return errors.Join(stdin.Close(), end()) }
	return st, nil
}

// state returns a file with the state of a container, as runtimes pass it to hooks.
func state(bundle, id string, pid int) (*os.File, error) {
	data, err := json.Marshal(map[string]any{"ociVersion": "1.2.0", "id": id, "status": "creating", "pid": pid, "bundle": bundle})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(bundle, "state.json")
	if err := write(path, data, 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}
