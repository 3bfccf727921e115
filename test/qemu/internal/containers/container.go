package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"
)

// container is a container that requests GPU 1.
type container struct {
	name string
	// runtime is the path of the OCI runtime.
	runtime string
	// hook says that the bundle has the prestart hook, as with "docker run --gpus".
	hook bool
	// systemd says that systemd makes the cgroup. Otherwise the runtime makes it.
	systemd bool
	// listed says that systemd has a list of the container's devices. crun does not make one.
	listed bool
}

// spec returns the config.json of the container.
func (c container) spec() map[string]any {
	capabilities := []string{"CAP_MKNOD", "CAP_DAC_OVERRIDE"}
	cgroup := "/" + c.name
	if c.systemd {
		cgroup = "system.slice:gpu:" + c.name
	}
	spec := map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": "rootfs"},
		"process": map[string]any{
			"cwd": "/", "args": []string{"/bin/probe"}, "env": []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=1"},
			"user":         map[string]any{"uid": 0, "gid": 0},
			"capabilities": map[string]any{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
		},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
		},
		"linux": map[string]any{
			"cgroupsPath": cgroup,
			"namespaces":  []map[string]any{{"type": "pid"}, {"type": "mount"}},
			"resources":   map[string]any{"devices": []map[string]any{{"allow": false, "access": "rwm"}}},
		},
	}
	if c.hook {
		spec["hooks"] = map[string]any{"prestart": []map[string]any{{
			"path": filepath.Join(bin, "nvidia-container-runtime-hook"),
			"args": []string{"nvidia-container-runtime-hook", "-config", filepath.Join(scratch, "config.toml"), "prestart"},
		}}}
	}
	return spec
}

// command returns a command of the container's runtime.
func (c container) command(ctx context.Context, args ...string) *exec.Cmd {
	global := []string{c.runtime, "--root=" + filepath.Join(scratch, "state")}
	if c.systemd {
		global = append(global, "--systemd-cgroup")
	}
	return onNode(ctx, append(global, args...)...)
}

// check starts the container, and writes its access to the device nodes after each event.
func (c container) check(ctx context.Context, w io.Writer) error {
	dir, err := c.bundle()
	if err != nil {
		return err
	}
	cmd := c.command(ctx, "run", "--bundle="+dir, c.name)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		return err
	}
	err = c.events(ctx, w, in, bufio.NewReader(out))
	if closed := in.Close(); err == nil {
		err = closed
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	return c.forgotten(ctx)
}

func (c container) unit() string { return "gpu-" + c.name + ".scope" }

// forgotten waits until systemd has removed all files of the container's unit.
func (c container) forgotten(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		files, err := filepath.Glob("/run/systemd/*/" + c.unit() + "*")
		if err != nil || len(files) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd keeps %q", files)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// events triggers events, and writes the container's access to the device nodes after each event.
// in and out are the container's standard input and output.
func (c container) events(ctx context.Context, w, in io.Writer, out *bufio.Reader) error {
	systemctl := func(args ...string) *exec.Cmd { return exec.CommandContext(ctx, "systemctl", args...) }
	for _, event := range []struct {
		name   string
		happen bool
		cmd    *exec.Cmd
	}{
		{"started", true, nil},
		{"after daemon-reload", true, systemctl("daemon-reload")},
		{"after another daemon-reload", true, systemctl("daemon-reload")},
		{"after update", c.systemd, c.command(ctx, "update", "--cpu-share=512", c.name)},
		// A denied access shows that systemd's device program is in effect for the container.
		{"after the unit was denied every device", c.listed, systemctl("set-property", "--runtime", c.unit(), "DeviceAllow=")},
	} {
		if !event.happen {
			continue
		}
		if event.cmd != nil {
			if err := output(event.cmd); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(in); err != nil {
			return err
		}
		line, err := out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", event.name, err)
		}
		fmt.Fprintf(w, "%s: %s", event.name, line)
	}
	return nil
}
