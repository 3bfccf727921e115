//go:build e2e

package crio_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"outrigger.dev/pkg/pace"
)

const (
	// image is the name of the image in CRI-O's storage.
	image = "outrigger.dev/vectoradd:crio"
	// socket is CRI-O's default one.
	socket = "/run/crio/crio.sock"
	// restarts is what the stand-in of systemctl has been called with.
	restarts = "/run/systemctl.log"
	// limit is how long anything may take.
	limit = 30 * time.Second
)

// config is that of the packages of CRI-O, for a machine without systemd and a network for
// pods. The sandboxes of this test have no process, so that any image serves.
const config = `# By hand: keep this comment.
[crio]
storage_driver = "vfs" # this node has no overlayfs below its root

[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"

[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/libexec/crio/conmon"

[crio.network]
disable_hostport_mapping = true

[crio.image]
pause_image = "` + image + `"
`

// systemctl stands for systemd, which this machine does not run: it ends CRI-O, and waits
// until it was started again.
const systemctl = `#!/bin/sh
[ "$1" = restart ] || exit 1 # CRI-O asks systemd for its properties
echo "$@" >>` + restarts + `
pid=$(cat /run/crio.pid)
kill "$pid"
while [ "$(cat /run/crio.pid)" = "$pid" ] || ! [ -S ` + socket + ` ]; do sleep 0.05; done
`

// engine is a running CRI-O.
type engine struct {
	*testing.T
	runtime cri.RuntimeServiceClient
	pods    int
}

// newEngine starts CRI-O with an image, as systemd does: it is started again when it ends.
func newEngine(t *testing.T) *engine {
	t.Helper()
	root := repository(t)
	for path, text := range map[string]string{
		"/etc/crio/crio.conf.d/10-crio.conf": config,
		"/etc/containers/policy.json":        `{"default": [{"type": "insecureAcceptAnything"}]}`,
	} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // everyone reads it on a node
	}
	must(t, os.WriteFile("/usr/bin/systemctl", []byte(systemctl), 0o755)) //nolint:gosec // a program
	command(t, component(root, "copyimg"), "--root=/var/lib/containers/storage", "--runroot=/run/containers/storage",
		"--storage-driver=vfs", "--image-name="+image, "--import-from=docker-archive:"+filepath.Join(root, "out/images/vectoradd.tar"))
	supervise(t, component(root, "crio"))
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the process ends
	e := &engine{T: t, runtime: cri.NewRuntimeServiceClient(conn)}
	e.until("CRI-O answers", func() bool {
		_, err := e.runtime.Version(t.Context(), &cri.VersionRequest{})
		return err == nil
	})
	return e
}

// supervise runs a program again whenever it ends, until the test ends.
func supervise(t *testing.T, program string) {
	t.Helper()
	log, err := os.OpenFile("/run/crio.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, program)
			cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
			cmd.Stdout, cmd.Stderr = log, log
			if err := cmd.Start(); err != nil {
				_, _ = fmt.Fprintln(log, err)
				return
			}
			_ = os.WriteFile("/run/crio.pid", fmt.Append(nil, cmd.Process.Pid), 0o600) // systemctl waits for it in vain
			_, _ = fmt.Fprintln(log, "CRI-O has ended:", cmd.Wait())
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("the log of CRI-O: %v\n%s", err, text)
		}
	})
}

// until waits until a condition holds.
func (e *engine) until(what string, ok func() bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	for !ok() {
		if !pace.Pause(ctx, 20*time.Millisecond) {
			e.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// reload sends SIGHUP.
func (e *engine) reload() {
	e.Helper()
	var pid int
	_, err := fmt.Sscan(readFile(e.T, "/run/crio.pid"), &pid)
	must(e.T, err)
	must(e.T, unix.Kill(pid, unix.SIGHUP))
}

// pod starts a pod with a runtime handler.
func (e *engine) pod(handler string) (string, *cri.PodSandboxConfig, error) {
	e.Helper()
	e.pods++
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	name := fmt.Sprint("pod", e.pods)
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"},
		LogDirectory: "/var/log/pods/" + name,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: "/" + os.Getenv(cgroupVariable),
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{
				Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER,
			}},
		},
	}
	must(e.T, os.MkdirAll(config.GetLogDirectory(), 0o755))
	answer, err := e.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return answer.GetPodSandboxId(), config, err
}

// start starts a container in a pod of its own. It returns its ID and its log.
func (e *engine) start(handler string, change func(*cri.ContainerConfig)) (id, log string, err error) {
	e.Helper()
	pod, config, err := e.pod(handler)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	c := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "c"}, Image: &cri.ImageSpec{Image: image}, LogPath: "c.log",
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
			NamespaceOptions: config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	change(c)
	made, err := e.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: pod, Config: c, SandboxConfig: config})
	if err != nil {
		return "", "", err
	}
	_, err = e.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.GetContainerId()})
	return made.GetContainerId(), filepath.Join(config.GetLogDirectory(), c.GetLogPath()), err
}

// run runs a container to its end, and returns what it prints. The error is that of the
// CRI, or says how the container has ended.
func (e *engine) run(handler string, change func(*cri.ContainerConfig)) (string, error) {
	e.Helper()
	id, log, err := e.start(handler, change)
	if err != nil {
		return "", err
	}
	return e.ended(id, log)
}

// ended waits for the end of a container, and returns its log.
func (e *engine) ended(id, log string) (string, error) {
	e.Helper()
	var status *cri.ContainerStatus
	e.until("the container ends", func() bool {
		answer, err := e.runtime.ContainerStatus(e.Context(), &cri.ContainerStatusRequest{ContainerId: id})
		must(e.T, err)
		status = answer.GetStatus()
		return status.GetState() == cri.ContainerState_CONTAINER_EXITED
	})
	var b strings.Builder
	for line := range strings.Lines(readFile(e.T, log)) {
		// A line is: time, stream, F, text.
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			b.WriteString(fields[3])
		}
	}
	if status.GetExitCode() != 0 {
		return b.String(), fmt.Errorf("exit code %d: %s", status.GetExitCode(), status.GetMessage())
	}
	return b.String(), nil
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}
