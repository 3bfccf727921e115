package containertoolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/test/bench/internal/simnode"
)

// scene has the files that containers start from: CDI specs, configs of the tools, an image, and
// the low-level runtimes.
type scene struct {
	bin, dir string
	// stub is the path of a static C program. With arguments, it is a runtime that does nothing.
	// Without arguments, it is a process that waits.
	stub string
	// runc is the path of runc, or empty if the machine has none.
	runc string
	// log receives the output of all programs.
	log *os.File
}

const stubSource = `#include <unistd.h>
int main(int argc, char **argv) { (void)argv; return argc > 1 ? 0 : pause(); }
`

// newScene makes a scene on the node.
func newScene(ctx context.Context, node *simnode.Node, gcc string) (*scene, error) {
	dir, err := node.Dir("starts")
	if err != nil {
		return nil, err
	}
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	s := &scene{bin: node.Bin, dir: dir, stub: filepath.Join(dir, "stub"), runc: findRunc(node.Bin)}
	source := filepath.Join(dir, "stub.c")
	if err := write(source, []byte(stubSource), 0o644); err != nil {
		return nil, err
	}
	steps := [][]string{
		{gcc, "-O2", "-static", "-o", s.stub, source},
		// A node has more than one spec.
		{s.tool("nvidia-ctk"), "cdi", "generate", "--nvidia-cdi-hook-path", s.tool("nvidia-cdi-hook"), "--output", s.path("cdi/nvidia.com-gpu.json")},
		{s.tool("nvidia-ctk"), "cdi", "generate", "--mode", "management", "--nvidia-cdi-hook-path", s.tool("nvidia-cdi-hook"), "--output", s.path("cdi/management.nvidia.com-gpu.json")},
	}
	for _, step := range steps {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(step, " "), err, out)
		}
	}
	if err := os.MkdirAll(s.path("volume"), 0o755); err != nil {
		return nil, err
	}
	if err := newImage(ctx, s.path("image"), s.stub); err != nil {
		return nil, err
	}
	s.log, err = os.OpenFile(s.path("log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	return s, err
}

// makePrivate makes the folder of the scene a mount that is not shared with the host, like the root
// file system of a container. The hooks refuse to mount in a shared one.
func makePrivate(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mount %s private: %w", dir, err)
	}
	return nil
}

// close closes the log and unmounts the folder.
func (s *scene) close() error {
	return errors.Join(s.log.Close(), unix.Unmount(s.dir, unix.MNT_DETACH))
}

// findRunc returns the path of the test cluster's runc or, if it is not built, of the system's
// runc.
func findRunc(bin string) string {
	own := filepath.Join(bin, "cluster-components/runc")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	path, err := exec.LookPath("runc")
	if err != nil {
		return ""
	}
	return path
}

func (s *scene) tool(name string) string { return filepath.Join(s.bin, name) }

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// config writes a config.toml with all keys, and returns its path. runtime is the low-level
// runtime, and set changes more keys.
func (s *scene) config(ctx context.Context, name, runtime, mode string, set ...string) (string, error) {
	path := s.path(name + ".toml")
	args := []string{"config", "--config-file", s.path("none"), "--output", path}
	for _, change := range append([]string{
		"nvidia-container-runtime.runtimes=" + runtime,
		"nvidia-container-runtime.mode=" + mode,
		"nvidia-container-runtime.modes.cdi.spec-dirs=" + s.path("cdi"),
		"nvidia-container-runtime-hook.path=" + s.tool("nvidia-container-runtime-hook"),
		"nvidia-container-cli.path=" + s.tool("nvidia-container-cli"),
	}, set...) {
		args = append(args, "--set", change)
	}
	if out, err := exec.CommandContext(ctx, s.tool("nvidia-ctk"), args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("write %s: %w: %s", path, err, out)
	}
	return path, nil
}

// command returns a command with the environment that a container engine sets.
func (s *scene) command(ctx context.Context, config, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if config != "" {
		cmd.Env = append(cmd.Env, "NVIDIA_CTK_CONFIG_FILE_PATH="+config)
	}
	// Use a file, because a pipe would need goroutines that copy the output.
	cmd.Stdout, cmd.Stderr = s.log, s.log
	return cmd
}

// withLog adds the end of the log to an error.
func (s *scene) withLog(err error) error {
	if err == nil {
		return nil
	}
	const last = 2000
	if info, statErr := s.log.Stat(); statErr == nil {
		data, readErr := io.ReadAll(io.NewSectionReader(s.log, max(0, info.Size()-last), last))
		err = errors.Join(err, readErr, errors.New(strings.TrimSpace(string(data))))
	}
	return err
}

// bundle makes the bundle of container number i, and returns its folder and the container's ID. The
// root file system is a clone of image, or missing if image is empty.
func (s *scene) bundle(i int, image string, env ...string) (dir, id string, err error) {
	id = fmt.Sprintf("outrigger-bench-%d", i)
	dir = s.path("containers/" + id)
	if err := os.RemoveAll(dir); err != nil {
		return "", "", err
	}
	data, err := json.Marshal(s.spec(id, env))
	if err != nil {
		return "", "", err
	}
	if err := write(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		return "", "", err
	}
	if image != "" {
		err = clone(image, filepath.Join(dir, "rootfs"))
	}
	return dir, id, err
}

type object map[string]any

// spec returns a config.json like containerd's. The node's driver is in separate mounts in /proc.
// The container gets them as well.
func (s *scene) spec(id string, env []string) object {
	mounts := []object{
		{"destination": "/proc", "type": "bind", "source": "/proc", "options": []string{"rbind", "rprivate"}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
	}
	for i := range 12 {
		mounts = append(mounts, object{
			"destination": fmt.Sprintf("/run/volume%d", i), "type": "bind", "source": s.path("volume"), "options": []string{"rbind", "rprivate", "rw"},
		})
	}
	// containerd's list is as long. The names are not names of system calls.
	var calls []string
	for i := range 400 {
		calls = append(calls, fmt.Sprintf("no_system_call_%d", i))
	}
	return object{
		"ociVersion":  "1.2.0",
		"process":     object{"user": object{"uid": 0, "gid": 0}, "args": []string{"/bin/wait"}, "env": append([]string{"PATH=/usr/bin:/bin", "HOSTNAME=pod"}, env...), "cwd": "/"},
		"root":        object{"path": "rootfs"},
		"mounts":      mounts,
		"annotations": object{"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-name": "pod"},
		"linux": object{
			"cgroupsPath": "/" + id,
			"namespaces":  []object{{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}},
			"resources":   object{"devices": []object{{"allow": false, "access": "rwm"}}},
			"seccomp":     object{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []object{{"names": calls, "action": "SCMP_ACT_ERRNO"}}},
		},
	}
}

// hasDriver returns an error if a root file system lacks the driver's library.
func hasDriver(root string) error {
	path := filepath.Join(root, driverroot.LoaderDirs()[0], "libcuda.so.1")
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("check the container: it lacks the driver: %w", err)
	}
	return nil
}
