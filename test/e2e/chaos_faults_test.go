//go:build e2e

package e2e_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/e2e/stack"
)

// fault is something that goes wrong on the cluster.
type fault struct {
	name string
	do   func(context.Context) error
	// undo is nil if the agents have to mend it by themselves.
	undo func(context.Context) error
}

// overwrites reports whether it overwrites what feature discovery has written to the Node.
func (f fault) overwrites() bool { return strings.HasPrefix(f.name, overwrite) }

const (
	// swapConfig gives all agents another folder of configs, as the kubelet does when a
	// ConfigMap changes. What follows it is run in this folder.
	swapConfig = `set -e; for dir in /var/lib/kubelet/pods/*/volumes/kubernetes.io~configmap/configs; do cd "$dir"
		[ -L ..was ] || cp -P ..data ..was; mkdir -p ..chaos; ln -s ..chaos ..next; mv -T ..next ..data; done; cd ..chaos; `
	// restoreConfig undoes it.
	restoreConfig = `for dir in /var/lib/kubelet/pods/*/volumes/kubernetes.io~configmap/configs; do cd "$dir"
		[ ! -L ..was ] || { mv -T ..was ..data && rm -rf ..chaos; }; done`
	// lockAll takes the lock of each file and folder that its user can open. The locks end
	// by themselves.
	lockAll = `for path in $(find /run/nvidia /run/cdi ` + nfdFolder + ` 2>/dev/null); do flock "$path" sleep 60 2>/dev/null & done; wait`

	freezePlugin = "freeze device-plugin"
	freezeAPI    = "freeze the API server"
	raiseXID     = "raise an XID"

	overwrite = "overwrite "
	// mostOverwrites of the Node are answered within 7 s each.
	mostOverwrites = 3

	// smallFolders are full soon. That of CDI specs is none: containerd would not see what is mounted
	// there.
	smallFolders = "/run/nvidia " + nfdFolder

	kubeletSockets = "/var/lib/kubelet/device-plugins/"
)

// chaosFaults returns what can go wrong with the agents, whose files are at these paths.
func chaosFaults(t *testing.T, files []string) []fault {
	t.Helper()
	api := apiServer(t)
	gpu := func(command string, args ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := shared.Simulate(ctx, gpuNode(), command, args...)
			return err
		}
	}
	faults := []fault{
		{"kill device-plugin", script("busybox killall -KILL device-plugin"), nil},
		{"kill feature-discovery", script("busybox killall -KILL feature-discovery"), nil},
		{freezePlugin, script("busybox killall -STOP device-plugin"), script("busybox killall -CONT device-plugin || :")},
		{"freeze feature-discovery", script("busybox killall -STOP feature-discovery"), script("busybox killall -CONT feature-discovery || :")},
		{freezeAPI, api("STOP"), api("CONT")},
		fill("/run/nvidia", "/run/nvidia/validations/*"),
		fill(nfdFolder, nfdFolder+"/gfd"),
		{"empty the run root", script("find /run/nvidia -mindepth 1 -delete"), nil},
		{"remove the claims of GPUs", script("rm /run/nvidia/leases/offer.*"), nil},
		{"truncate the claims of GPUs", script("for claim in /run/nvidia/leases/offer.*; do truncate -cs 0 \"$claim\"; done"), nil},
		{"remove the configs", script(swapConfig + "rm -f default"), script(restoreConfig)},
		{"truncate the configs", script(swapConfig + ": >default"), script(restoreConfig)},
		{"remove the kubelet's socket", script("rm " + kubeletSockets + "kubelet.sock"), func(ctx context.Context) error {
			return shared.Restart(ctx, "kubelet", gpuNode())
		}},
		{"remove the plugin's socket", script("rm " + kubeletSockets + "nvidia-gpu.sock"), nil},
		{raiseXID, gpu("xid", "3", "79"), gpu("reset", "3")},
		locks(),
	}
	// All that root runs shares the instances: beside other tests, this fault fails them.
	if alone := os.Getenv(chaosVariable) != ""; alone {
		faults = append(faults, inotify())
	}
	for _, file := range files {
		if strings.HasPrefix(file, "/run/nvidia/leases/") {
			continue
		}
		faults = append(faults,
			fault{"remove " + file, script("rm -f " + file), nil},
			fault{"truncate " + file, script(": >" + file), nil})
	}
	return faults
}

// fill fills a small folder, without the files of a pattern in it: an agent has to write
// them again once there is space.
func fill(folder, files string) fault {
	return fault{
		"fill " + folder, script("rm -f " + files + "; ! busybox dd if=/dev/zero of=" + folder + "/full bs=4k 2>/dev/null"),
		script("rm -f " + folder + "/full"),
	}
}

// overwrites returns what others can do to the labels and the condition of the Node.
func (c *chaos) overwrites() []fault {
	node := "/api/v1/nodes/" + gpuNode()
	patch := func(path, kind string, object any) func(context.Context) error {
		return func(ctx context.Context) error { return c.api.Patch(ctx, path, kind, object) }
	}
	condition := func(of map[string]any) func(context.Context) error {
		of["type"] = gpuReady
		return patch(node+"/status", stack.StrategicPatch, map[string]any{"status": map[string]any{"conditions": []any{of}}})
	}
	faults := []fault{
		{overwrite + "the condition", condition(map[string]any{"status": "False", "reason": "Chaos"}), nil},
		{overwrite + "the condition with none", condition(map[string]any{"$patch": "delete"}), nil},
	}
	if keys := slices.Sorted(maps.Keys(c.want.Labels)); len(keys) > 0 {
		label := func(value any) func(context.Context) error {
			return patch(node, stack.MergePatch, map[string]any{"metadata": map[string]any{"labels": map[string]any{keys[0]: value}}})
		}
		faults = append(faults, fault{overwrite + "a label", label("chaos"), nil}, fault{overwrite + "a label with none", label(nil), nil})
	}
	return faults
}

// script runs a script of the shell on the GPU node.
func script(text string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := shared.Exec(ctx, gpuNode(), "sh", "-c", text)
		return err
	}
}

// apiServer returns what sends signals to the API server.
func apiServer(t *testing.T) func(signal string) func(context.Context) error {
	t.Helper()
	nodes, err := shared.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range nodes[0].Components {
		if c.Name == "kube-apiserver" {
			return func(signal string) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := shared.Exec(ctx, nodes[0].Name, "busybox", "kill", "-"+signal, strconv.Itoa(c.PID))
					return err
				}
			}
		}
	}
	t.Fatalf("%s runs no kube-apiserver", nodes[0].Name)
	return nil
}

// locks takes, as a user without rights, the locks of all that this user can open.
func locks() fault {
	var cmd *exec.Cmd
	return fault{"lock what everyone can open", func(ctx context.Context) (err error) {
		cmd, err = shared.NodeCommand(ctx, gpuNode(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", lockAll)
		if err != nil {
			return err
		}
		// The processes that hold the locks end together.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd.Start()
	}, func(context.Context) error {
		err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait() // It was killed.
		return err
	}}
}

// inotify takes all inotify instances of the user of the agents, who is root.
func inotify() fault {
	var taken []int
	return fault{"use up inotify", func(context.Context) error {
		for fd, err := unix.InotifyInit1(unix.IN_CLOEXEC); err == nil; fd, err = unix.InotifyInit1(unix.IN_CLOEXEC) {
			taken = append(taken, fd)
		}
		return nil
	}, func(context.Context) error {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		taken = nil
		return nil
	}}
}
