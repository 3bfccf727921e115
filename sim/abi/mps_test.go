package abi_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// Results of cuInit and of calls of a client.
const (
	mpsConnectionFailed = "805"
	mpsServerNotReady   = "807"
)

// controlDaemon gives each client the same answer, and keeps its connection until end is called.
type controlDaemon struct {
	dir      string
	listener net.Listener
	ended    chan struct{}
}

func newControlDaemon(t *testing.T, answer string) controlDaemon {
	t.Helper()
	d := controlDaemon{dir: t.TempDir(), ended: make(chan struct{})}
	openToAll(t, d.dir)
	var err error
	d.listener, err = net.Listen("unix", filepath.Join(d.dir, "control")) //nolint:noctx // it returns at once
	mustDo(t, err)
	mustDo(t, os.Chmod(filepath.Join(d.dir, "control"), 0o666))
	t.Cleanup(func() { d.listener.Close() })
	go func() {
		for {
			conn, err := d.listener.Accept()
			if err != nil {
				return
			}
			go func() {
				if line, _ := bufio.NewReader(conn).ReadString('\n'); line == "client\n" {
					fmt.Fprint(conn, answer)
				}
				<-d.ended
				conn.Close()
			}()
		}
	}()
	return d
}

// outside is the pipe folder of a process that is no client.
const outside = "/dev/null"

func in(cmd *exec.Cmd, pipe string) *exec.Cmd {
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+pipe)
	return cmd
}

// The MPS documentation, "GPU Compute Modes": in exclusive mode, the server is the one process that uses
// the GPU, for all its clients.
func TestExclusiveModeAdmitsClientsOfMPS(t *testing.T) {
	program := reachable(t)
	for who, mode := range map[string]os.FileMode{"that are listed": 0o666, "that can only read the state": 0o644} {
		t.Run("processes "+who, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 1))
			mustDo(t, m.SetField(0, "compute-mode", "exclusive-process"))
			d := newControlDaemon(t, "ok "+m.Show().GPUs[0].UUID+"=0\n")
			start := func(pipe string) holder {
				cmd := in(cudaCommand(t, m, program, "hold"), pipe)
				mustDo(t, os.Chmod(m.Path(), mode))
				return hold(t, cmd)
			}
			server := start(outside)
			mustEqual(t, "the server", cudaHeld, server.says)
			client := start(d.dir)
			mustEqual(t, "a client", cudaHeld, client.says)
			mustEqual(t, "another client", cudaHeld, start(d.dir).says)
			mustEqual(t, "a process that is no client", cudaUnavailable, start(outside).says)
			mustEqual(t, "a process with a pipe folder without a daemon", cudaUnavailable, start(t.TempDir()).says)
			server.stop(t)
			mustEqual(t, "the next server, beside clients of the last", cudaHeld, start(outside).says)
		})
	}
}

func TestClientsOfMPSAreListed(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	d := newControlDaemon(t, "ok "+m.Show().GPUs[0].UUID+"=0\n")
	cmd := in(cudaCommand(t, m, program, "hold"), d.dir)
	mustDo(t, os.Chmod(m.Path(), 0o666))
	client := hold(t, cmd)
	mustDo(t, m.PutProcess(0, state.Process{PID: 4711, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}))
	gpu := device(t, m.session(t), 0)
	pids := func(list []nvml.ProcessInfo, ret nvml.Return) []int {
		t.Helper()
		mustBe(t, "list", ret, nvml.SUCCESS)
		pids := []int{}
		for _, p := range list {
			pids = append(pids, int(p.Pid))
		}
		return pids
	}
	mustEqual(t, "clients of MPS", []int{client.Process.Pid}, pids(gpu.GetMPSComputeRunningProcesses()))
	mustEqual(t, "other processes", []int{4711}, pids(gpu.GetComputeRunningProcesses()))
	client.stop(t)
	mustEqual(t, "clients of MPS after its end", []int{}, pids(gpu.GetMPSComputeRunningProcesses()))
}

// The MPS documentation, set_default_device_pinned_mem_limit: a client cannot allocate more.
func TestMPSLimitsMemory(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	left := func(limit int) string {
		d := newControlDaemon(t, fmt.Sprintf("ok %s=%d\n", m.Show().GPUs[0].UUID, limit))
		cmd := in(cudaCommand(t, m, program, "hold"), d.dir)
		stdin, err := cmd.StdinPipe()
		mustDo(t, err)
		mustDo(t, stdin.Close())
		out, err := cmd.Output()
		mustDo(t, err)
		_, text, _ := strings.Cut(string(out), "held: ")
		line, _, _ := strings.Cut(text, "\n")
		return line
	}
	mustEqual(t, "1 MiB of 3 MiB", "0 0 2", left(3<<20))
	mustEqual(t, "1 MiB of 1 MiB", "0 0 0", left(1<<20))
	mustEqual(t, "1 MiB of less", "0 2 0", left(1<<20-1)) // CUDA_ERROR_OUT_OF_MEMORY
	unlimited := left(0)
	mustEqual(t, "1 MiB of the GPU", unlimited, left(1<<40))
	if !strings.HasPrefix(unlimited, "0 0 2") || len(unlimited) < len("0 0 20000") {
		t.Errorf("without a limit: %q", unlimited)
	}
}

// The MPS documentation, CUDA_VISIBLE_DEVICES: clients see the devices of the server, in its order, and
// their own variable counts these devices.
func TestClientsOfMPSSeeTheDevicesOfTheServer(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 4))
	gpus := m.Show().GPUs
	d := newControlDaemon(t, fmt.Sprintf("ok %s=0 GPU-unknown=0 %s=0\n", gpus[3].UUID, gpus[1].UUID))
	for visible, want := range map[string][]int{"-": {3, 1}, "1": {1}, "1,0": {1, 3}, gpus[1].UUID: {1}, gpus[0].UUID: nil} {
		cmd := in(cudaCommand(t, m, program), d.dir)
		if visible != "-" {
			cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+visible)
		}
		out, err := cmd.Output()
		mustDo(t, err)
		result := cudaSuccess
		if want == nil {
			result = cudaNoDevice
		}
		wants, got := []string{result}, []string(nil)
		for _, i := range want {
			wants = append(wants, gpus[i].UUID[len("GPU-"):][:8])
		}
		for text := range strings.Lines(string(out)) {
			words := strings.Fields(text)
			got = append(got, words[len(words)-1]) // the result, and the beginnings of UUIDs
		}
		mustEqual(t, "CUDA_VISIBLE_DEVICES="+visible, wants, got)
	}
}

func TestMPSThatCannotServeIsAnError(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	for answer, want := range map[string]string{
		"error 807 no GPU\n":     mpsServerNotReady,
		"ok GPU-without-limit\n": mpsConnectionFailed,
		"what?\n":                mpsConnectionFailed,
		"error\n":                mpsConnectionFailed,
	} {
		d := newControlDaemon(t, answer)
		out, err := in(cudaCommand(t, m, program), d.dir).Output()
		mustDo(t, err)
		mustEqual(t, "cuInit after "+answer, want+"\n", string(out))
	}
	d := newControlDaemon(t, "")
	close(d.ended)
	out, err := in(cudaCommand(t, m, program), d.dir).Output()
	mustDo(t, err)
	mustEqual(t, "cuInit without an answer", mpsConnectionFailed+"\n", string(out))
}

// cuda.h: CUDA_ERROR_MPS_RPC_FAILURE means that a call of the server failed.
func TestClientsOfMPSFailWithoutTheServer(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	d := newControlDaemon(t, "ok "+m.Show().GPUs[0].UUID+"=0\n")
	client := hold(t, in(cudaCommand(t, m, program, "hold"), d.dir))
	mustEqual(t, "a client", cudaHeld, client.says)
	close(d.ended)
	mustDo(t, client.stdin.Close())
	client.lines.Scan()
	mustEqual(t, "after the end of the server", "synchronized: 806", client.lines.Text())
	mustDo(t, client.Wait())
}
