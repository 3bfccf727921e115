// Containers runs in a guest whose first process is systemd. It starts a container with GPU 1 of a
// simulated node in each way that the container toolkit supports. It prints which device nodes of
// the GPUs the container can open: after its start, after systemd has written the devices of its
// units again, and after more events.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Folders of the guest.
const (
	bin     = "/outrigger/bin"
	node    = "/tmp/node"
	scratch = "/tmp/containers"
)

// config is the config file of the container toolkit's tools.
const config = `[nvidia-container-cli]
path = "/outrigger/bin/nvidia-container-cli"
[nvidia-container-runtime]
runtimes = ["/outrigger/bin/cluster-components/runc"]
modes.cdi.spec-dirs = ["/tmp/containers/cdi"]
[nvidia-container-runtime-hook]
path = "/outrigger/bin/nvidia-container-runtime-hook"
`

func main() {
	if filepath.Base(os.Args[0]) == "probe" {
		probe(os.Stdin, os.Stdout)
		return
	}
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
		os.Exit(1)
	}
}

// ways returns a container for each way to start one.
func ways() []container {
	runc, shim := filepath.Join(bin, "cluster-components/runc"), filepath.Join(bin, "nvidia-container-runtime")
	return []container{
		{name: "prestart", runtime: runc, hook: true, systemd: true, listed: true},
		{name: "prestart-crun", runtime: "/usr/bin/crun", hook: true, systemd: true},
		{name: "legacy", runtime: shim + ".legacy", systemd: true, listed: true},
		{name: "cdi", runtime: shim + ".cdi", systemd: true, listed: true},
		{name: "cdi-cgroupfs", runtime: shim + ".cdi"},
	}
}

func run(ctx context.Context, w io.Writer) error {
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "config.toml"), []byte(config), 0o644); err != nil {
		return err
	}
	if err := output(exec.CommandContext(ctx, filepath.Join(bin, "gpu-sim"), "create", "--root="+node, "--gpus=2", "--model=h100-80")); err != nil {
		return err
	}
	if err := output(onNode(ctx, filepath.Join(bin, "nvidia-ctk"), "cdi", "generate", "--output="+filepath.Join(scratch, "cdi/nvidia.json"),
		"--nvidia-cdi-hook-path="+filepath.Join(bin, "nvidia-cdi-hook"), "--enable-hook=prepare-container")); err != nil {
		return err
	}
	for _, c := range ways() {
		fmt.Fprintln(w, "container", c.name)
		if err := c.check(ctx, w); err != nil {
			return fmt.Errorf("container %s: %w", c.name, err)
		}
	}
	return nil
}

// onNode returns a command that runs on the simulated node.
func onNode(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "gpu-sim"), append([]string{"exec", "--root=" + node, "--"}, args...)...)
	cmd.Env = append(os.Environ(), "NVIDIA_CTK_CONFIG_FILE_PATH="+filepath.Join(scratch, "config.toml"))
	return cmd
}

// output runs a command. Its error includes the output of the command.
func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}

// bundle writes the bundle of a container.
func (c container) bundle() (string, error) {
	dir := filepath.Join(scratch, c.name)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	spec, err := json.Marshal(c.spec())
	if err != nil {
		return "", err
	}
	for file, data := range map[string][]byte{
		"config.json":               spec,
		"rootfs/bin/probe":          self,
		"rootfs/etc/debian_version": []byte("12.0\n"),
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return "", err
		}
	}
	return dir, nil
}
