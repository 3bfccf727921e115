package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
)

// mpsShell is a shell in a node with two GPUs, and the folders of an MPS daemon.
func mpsShell(t *testing.T) (s sim, sh *shell, dir string) {
	t.Helper()
	needRoot(t)
	s = newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "l4")
	dir = agenttest.ShortDir(t)
	sh = s.shell()
	sh.run(fmt.Sprintf("export CUDA_MPS_PIPE_DIRECTORY=%[1]s/pipe CUDA_MPS_LOG_DIRECTORY=%[1]s/log", dir))
	return s, sh, dir
}

// control sends commands to the daemon, one per line.
func (sh *shell) control(commands ...string) string {
	sh.t.Helper()
	return sh.run(fmt.Sprintf("printf '%s\\n' | nvidia-cuda-mps-control || echo code $?", strings.Join(commands, `\n`)))
}

func TestMPSDaemonStartsOnce(t *testing.T) {
	_, sh, dir := mpsShell(t)
	const none = "Cannot find MPS control daemon process\ncode 1"
	assert.Equal(t, sh.control("get_server_list"), none)
	// The daemon does not keep this pipe open.
	assert.Equal(t, sh.run("nvidia-cuda-mps-control -d 2>&1 | cat"), "")
	for _, option := range []string{"-d", "-f"} {
		assert.Equal(t, sh.run("nvidia-cuda-mps-control "+option+" || echo code $?"), "An instance of this daemon is already running\ncode 1")
	}
	pid := strings.TrimSpace(sh.run("cat $CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"))
	sh.run("kill -KILL " + pid)
	agenttest.Poll(t, "the killed daemon is gone", func() bool { return sh.control("get_server_list") == none })
	assert.Equal(t, sh.run("nvidia-cuda-mps-control -d"), "")
	assert.Equal(t, sh.control("get_server_list", "quit", "get_server_list"), "")
	assert.Equal(t, sh.control("get_server_list"), none)
	log, err := os.ReadFile(filepath.Join(dir, "log/control.log"))
	assert.NilError(t, err)
	line := regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} Control +` + pid + `\] Starting control daemon using socket ` + dir + `/pipe/control\n`)
	assert.Assert(t, line.Match(log), "%s", log)
	assert.Assert(t, strings.Count(string(log), "Starting control daemon") == 2, "%s", log)
	assert.Equal(t, sh.run("nvidia-cuda-mps-control -x || echo code $?"), "nvidia-cuda-mps-control: -x: not simulated; want -d, -f or no option\ncode 1")
}

func TestMPSCommands(t *testing.T) {
	s, sh, _ := mpsShell(t)
	gpus := s.show().GPUs
	sh.run("nvidia-cuda-mps-control -d")
	defer sh.control("quit -t 0")
	for _, tc := range []struct{ command, want string }{
		{"get_default_active_thread_percentage", "100.0"},
		{"set_default_active_thread_percentage 25", ""},
		{"get_default_active_thread_percentage", "25.0"},
		{"get_default_device_pinned_mem_limit 0", "0M"},
		{"set_default_device_pinned_mem_limit 0 900M", ""},
		{"get_default_device_pinned_mem_limit 0", "900M"},
		{"set_default_device_pinned_mem_limit " + gpus[1].UUID + " 1044M", ""},
		{"get_default_device_pinned_mem_limit " + gpus[1].UUID, "1G"},
		{"get_server_list", ""},
		{"get_device_client_list", ""},
		{"get_client_list 1", "get_client_list: 1: no server has this PID\ncode 1"},
		{"get_server_status 1", "get_server_status: 1: no server has this PID\ncode 1"},
		{"shutdown_server 1", "shutdown_server: 1: no server has this PID\ncode 1"},
		{"terminate_client 1 2", "unknown or not simulated command: terminate_client\ncode 1"},
		{"start_server 0", "start_server: want start_server -uid UID\ncode 1"},
		{"start_server -uid me", "start_server: -uid me: want -uid UID\ncode 1"},
		{"set_default_active_thread_percentage 101", "set_default_active_thread_percentage: 101: want a percentage greater than 0, at most 100\ncode 1"},
		{"set_default_device_pinned_mem_limit x 1T", "set_default_device_pinned_mem_limit: device x: want an index or a UUID\nsize 1T: want a number followed by M or G, such as 10G\ncode 1"},
		{"quit -f", "quit: -f: want -t SECONDS\ncode 1"},
		{"start_server -uid 0", ""},
	} {
		assert.Equal(t, sh.control(tc.command), tc.want, tc.command)
	}
	server := sh.control("get_server_list")
	assert.Assert(t, regexp.MustCompile(`^\d+$`).MatchString(server), server)
	assert.Equal(t, sh.control("get_server_status "+server), "ACTIVE")
	assert.Equal(t, sh.control("get_client_list "+server), "")
	assert.Equal(t, sh.control("get_device_client_list "+server), gpus[0].UUID+"\n"+gpus[1].UUID)
	assert.Equal(t, sh.control("start_server -uid 0", "get_server_list"), server)
	assert.Assert(t, strings.Contains(sh.run("nvidia-smi"), server+"      C   /usr/bin/nvidia-cuda-mps-server"))
	assert.Equal(t, sh.control("shutdown_server "+server, "get_server_list"), "")
	assert.Assert(t, !strings.Contains(sh.run("nvidia-smi"), "nvidia-cuda-mps-server"))
}

// cudaProgram compiles the program of the ABI tests that holds a context, and returns its path.
func cudaProgram(t *testing.T, dir, libs string) string {
	t.Helper()
	program := filepath.Join(dir, "program")
	out, err := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-I../state", "-I"+filepath.Join(libs, ".obj"), "-o", program,
		"../../abi/testdata/cudamig.c", filepath.Join(libs, "libcuda.so.1")).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, os.Chmod(dir, 0o755))
	return program
}

// hold starts the program by a command in the background. It holds its context until its descriptor, 3 or
// 4, is closed. It does not inherit descriptor 3, which would keep another program running.
func (sh *shell) hold(descriptor int, dir, command string) {
	sh.t.Helper()
	sh.run(fmt.Sprintf("mkfifo %[2]s/in%[1]d; %[3]s %[2]s/program hold <%[2]s/in%[1]d >%[2]s/out%[1]d 3>&- & exec %[1]d>%[2]s/in%[1]d", descriptor, dir, command))
}

// until repeats a command until it succeeds, and returns its output.
func (sh *shell) until(command string) (out string) {
	sh.t.Helper()
	agenttest.Poll(sh.t, command, func() bool {
		out = sh.run(command + " || echo failed")
		return !strings.HasSuffix(out, "failed")
	})
	return out
}

// says waits until the program of a descriptor has printed a line, and returns the line.
func (sh *shell) says(descriptor int, dir, line string) string {
	sh.t.Helper()
	return sh.until(fmt.Sprintf("grep '^%s' %s/out%d", line, dir, descriptor))
}

func TestMPSServesOneUserAtATime(t *testing.T) {
	s, sh, dir := mpsShell(t)
	cudaProgram(t, dir, s.libs)
	uuid := s.show().GPUs[1].UUID
	sh.run("nvidia-smi -c EXCLUSIVE_PROCESS; CUDA_VISIBLE_DEVICES=1 nvidia-cuda-mps-control -d")
	defer sh.control("quit -t 0")
	sh.control("set_default_device_pinned_mem_limit 0 100M")
	sh.hold(3, dir, "")
	assert.Equal(t, sh.says(3, dir, "held"), "held: 0 0 99")
	alone := fmt.Sprintf("CUDA_MPS_PIPE_DIRECTORY=/dev/null CUDA_VISIBLE_DEVICES=%s %s/program hold </dev/null | grep held", uuid, dir)
	assert.Assert(t, strings.HasPrefix(sh.run(alone), "held: 46 "))

	server := sh.control("get_server_list")
	client := sh.control("get_client_list " + server)
	assert.Equal(t, sh.control("get_device_client_list"), uuid+" "+client)
	table := sh.run("nvidia-smi")
	for _, row := range []string{client + "    M+C   " + dir + "/program", server + "      C   /usr/bin/nvidia-cuda-mps-server"} {
		assert.Assert(t, strings.Contains(table, row), "%s is missing in\n%s", row, table)
	}

	sh.hold(4, dir, "setpriv --reuid 65534 --clear-groups")
	sh.until("grep 'user 65534: .* push client to pending list' $CUDA_MPS_LOG_DIRECTORY/control.log")
	assert.Equal(t, sh.control("get_server_list", "get_client_list "+server), server+"\n"+client)
	sh.run("exec 3>&-")
	assert.Equal(t, sh.says(3, dir, "sync"), "synchronized: 0")
	assert.Equal(t, sh.says(4, dir, "held"), "held: 0 0 99")
	next := sh.control("get_server_list")
	assert.Assert(t, next != server)

	sh.run("kill -KILL " + next)
	agenttest.Poll(t, "the killed server is gone", func() bool { return sh.control("get_server_list") == "" })
	sh.run("exec 4>&-")
	assert.Equal(t, sh.says(4, dir, "sync"), "synchronized: 806")
}

func TestMPSQuitEndsClientsAtTheLimit(t *testing.T) {
	s, sh, dir := mpsShell(t)
	cudaProgram(t, dir, s.libs)
	sh.run("nvidia-cuda-mps-control -d")
	sh.hold(3, dir, "")
	assert.Assert(t, strings.HasPrefix(sh.says(3, dir, "held"), "held: 0 0 "))
	sh.run("echo quit | nvidia-cuda-mps-control & echo $! >$CUDA_MPS_LOG_DIRECTORY/quit")
	sh.until("grep Cmd:quit $CUDA_MPS_LOG_DIRECTORY/control.log")
	// It waits for its client, and accepts no others.
	assert.Equal(t, sh.run(dir+"/program"), "807")
	assert.Equal(t, sh.control("quit -t 0"), "")
	sh.run("wait $(cat $CUDA_MPS_LOG_DIRECTORY/quit); exec 3>&-")
	assert.Equal(t, sh.says(3, dir, "sync"), "synchronized: 806")
}
