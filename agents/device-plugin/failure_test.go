package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

func TestBadCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		env  string
		want []string
	}{
		"an unknown flag":           {args: []string{"--colour", "red"}, want: []string{"-colour", "--help"}},
		"an unknown list strategy":  {args: []string{"--device-list-strategy", "cdi"}, want: []string{`flag --device-list-strategy (environment variable DEVICE_LIST_STRATEGY): invalid value "cdi"`, "envvar, volume-mounts, cdi-annotations or cdi-cri"}},
		"one of several":            {env: "DEVICE_LIST_STRATEGY=envvar,nope", want: []string{`flag --device-list-strategy (environment variable DEVICE_LIST_STRATEGY): invalid value "nope"`}},
		"an unknown MIG strategy":   {args: []string{"--mig-strategy", "some"}, want: []string{`flag --mig-strategy (environment variable MIG_STRATEGY): invalid value "some"`, "none, single or mixed"}},
		"an unknown id strategy":    {env: "DEVICE_ID_STRATEGY=minor", want: []string{`flag --device-id-strategy (environment variable DEVICE_ID_STRATEGY): invalid value "minor"`, "uuid or index"}},
		"a word that is no boolean": {env: "FAIL_ON_INIT_ERROR=maybe", want: []string{"FAIL_ON_INIT_ERROR", `"maybe"`, "must be true or false", "--help"}},
		"a relative socket":         {args: []string{"--kubelet-socket", "kubelet.sock"}, want: []string{`flag --kubelet-socket (environment variable KUBELET_SOCKET): invalid value "kubelet.sock": must be an absolute path`}},
		"a source that is none":     {args: []string{"--gpu-source", "dcgm"}, want: []string{"--gpu-source", `"dcgm"`, "nvml or file:PATH"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := agenttest.Command(t, nil, tc.args...)
			if tc.env != "" {
				cmd.Env = append(cmd.Env, tc.env)
			}
			agenttest.Fails(t, cmd, 2, tc.want...)
		})
	}
}

func TestUnreadableSnapshot(t *testing.T) {
	dir := agenttest.ShortDir(t)
	broken := filepath.Join(dir, "broken.json")
	assert.NilError(t, os.WriteFile(broken, []byte(`{"gpus": [`), 0o600))
	for name, path := range map[string]string{
		"one that is not there": filepath.Join(dir, "none.json"),
		"one that is cut off":   broken,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := agenttest.Command(t, nil, "--gpu-source", "file:"+path, "--fail-on-init-error", "--listen", "",
				"--kubelet-socket", filepath.Join(dir, "kubelet.sock"), "--run-root", dir)
			agenttest.Fails(t, cmd, 1, path, "fail-on-init-error")
		})
	}
}

func TestMissingDriverRoot(t *testing.T) {
	p := start(t, nil, "--driver-root", "/nonexistent/driver", "--driver-root-ctr-path", "/nonexistent/driver")
	p.Said("gpus cannot be advertised, waiting", "/nonexistent/driver")
	agenttest.Poll(t, "/readyz says so too", func() bool { return strings.Contains(p.Get("/readyz"), "/nonexistent/driver") })
}

func TestFullDiskForTheCDISpec(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	disk := filepath.Join(agenttest.ShortDir(t), "cdi")
	assert.NilError(t, os.Mkdir(disk, 0o755))
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("needs a small file system: mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<10), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	p := start(t, n, "--device-list-strategy", "cdi-cri", "--cdi-root", disk)
	p.Said("gpus cannot be advertised, waiting", "no space left on device", disk)
	if got := files(t, disk); len(got) != 1 || got[0] != "filler" {
		t.Errorf("the full disk holds %v, want the filler alone", got)
	}
	if got := len(p.kubelet.Registrations()); got != 0 {
		t.Errorf("%d registrations, want none", got)
	}
	assert.NilError(t, os.Remove(filler))
	assert.NilError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=1m"))
	p.wait(8, 0)
}
