package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// asMPS makes a process of the test binary the supervisor of the MPS daemons.
const asMPS = "DEVICE_PLUGIN_TEST_AS_MPS"

func pluginOrMPS() {
	if os.Getenv(asMPS) != "" {
		agent.Main(app.MPS())
	}
	main()
}

// supervisor is a running mps-control-daemon.
type supervisor struct {
	*agenttest.Process
	pid int
}

// startMPS starts the supervisor for the plugin of p.
func (p *process) startMPS(n *simtest.Node, args ...string) supervisor {
	p.t.Helper()
	cmd := p.command(n, args...)
	cmd.Env = append(cmd.Env, asMPS+"=1")
	running := agenttest.Start(p.t, cmd)
	return supervisor{running, cmd.Process.Pid}
}

// in returns a command with the mounts of the supervisor, which has mounted the folders of the daemons.
func (s supervisor) in(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "nsenter", append([]string{"--mount", "--target", strconv.Itoa(s.pid)}, args...)...)
}

// client computes as a client of the daemon with this pipe folder.
func (s supervisor) client(t *testing.T, n *simtest.Node, pipe string) (output string) {
	t.Helper()
	return vectoradd(s.in(t, filepath.Join(n.Bin, "vectoradd")), pipe)
}

func vectoradd(cmd *exec.Cmd, pipe string) (output string) {
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+pipe)
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("%s(error %v)", out, err)
}

// noPipe is the pipe folder of a process that is not a client.
const noPipe = "/dev/null"

func TestSharedByMPS(t *testing.T) {
	n := simtest.New(t, "--gpus", "1", "--model", "l4")
	p := newProcess(t)
	config := p.path("config.yaml")
	assert.NilError(t, os.WriteFile(config, []byte("version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"), 0o600))
	args := []string{"--config-file", config, "--mps-root", p.path("mps")}
	p.run(n, args...)
	p.wait(0, 4)
	p.Said("the MPS control daemon of", "is not ready")

	s := p.startMPS(n, args...)
	devices := p.wait(4, 0)
	agenttest.Poll(t, "the supervisor is ready", func() bool { return s.Get("/readyz") == "ok\n" })
	var pipe string
	for _, d := range devices[:2] {
		resp, err := p.kubelet.Allocate(agenttest.Deadline(t), resource, d.GetID())
		assert.NilError(t, err)
		for _, m := range resp.GetMounts() {
			if m.GetContainerPath() == resp.GetEnvs()["CUDA_MPS_PIPE_DIRECTORY"] {
				pipe = m.GetHostPath()
			}
		}
		assert.Assert(t, pipe != "", "the container has no pipe: %v", resp)
	}
	outputs := make(chan string)
	for range 2 {
		go func() { outputs <- s.client(t, n, pipe) }()
	}
	for range 2 {
		if out := <-outputs; !strings.Contains(out, "Test PASSED") {
			t.Errorf("a client of MPS: %s", out)
		}
	}
	if out := s.client(t, n, noPipe); !strings.Contains(out, "CUDA_ERROR_DEVICE_UNAVAILABLE") {
		t.Errorf("a process that is not a client of MPS: %s", out)
	}
	log, err := s.in(t, "cat", filepath.Join(pipe, "../log/server.log")).Output()
	assert.NilError(t, err)
	for _, want := range []string{
		"Active Threads Percentage set to 25.0",
		fmt.Sprintf("Device pinned memory limit for device 0 set to 0x%x bytes", 23034/4<<20), // of an L4
	} {
		assert.Assert(t, strings.Contains(string(log), want), "%q is missing in\n%s", want, log)
	}

	s.Stop()
	p.wait(0, 4)
	if out := vectoradd(n.Command(t.Context(), filepath.Join(n.Bin, "vectoradd")), noPipe); !strings.Contains(out, "Test PASSED") {
		t.Errorf("after the end of MPS, the compute mode is not restored: %s", out)
	}
}
