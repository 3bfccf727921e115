package mps_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// supervisorName is the name under which the test binary is a supervisor.
const supervisorName = "supervisor"

// supervise runs a daemon for the GPU os.Args[3], and prints a line whenever it becomes
// ready or is not, which ends with a full stop.
func supervise() error {
	root, run := os.Args[1], os.Args[2]
	programs, err := mps.FindPrograms("/", root)
	if err != nil {
		return err
	}
	s := mps.NewSupervisor(mps.Config{
		Root: root, Programs: programs, Contract: contract.Dir{Root: run}, Log: slog.New(slog.DiscardHandler),
	})
	s.Apply(context.Background(), []mps.Daemon{daemon(gpu.UUID(os.Args[3]))})
	tick := time.NewTicker(5 * time.Millisecond)
	for last := ""; ; <-tick.C {
		now := fmt.Sprint(s.Ready())
		if now != last {
			fmt.Println(now + ".")
		}
		last = now
	}
}

// supervisor starts a supervisor as a process, and returns when it prints a line with the
// word.
func (r *rig) supervisor(id gpu.UUID, attr *syscall.SysProcAttr, word string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), filepath.Join(r.bin, supervisorName), r.root, r.dir.Root, string(id))
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	assert.NilError(r.t, err)
	assert.NilError(r.t, cmd.Start())
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		r.t.Log(lines.Text())
		if strings.Contains(lines.Text(), word) {
			return cmd
		}
	}
	r.t.Fatalf("the supervisor ended and did not print %q", word)
	return nil
}

func TestTheNextProcessSetsBackWhatAKilledOneChanged(t *testing.T) {
	r := newRig(t)
	assert.NilError(t, os.WriteFile(filepath.Join(r.bin, "mode.GPU-a"), []byte("PROHIBITED"), 0o600))
	killed := r.supervisor("GPU-a", nil, "<nil>")
	if got := r.mode("GPU-a"); got != "EXCLUSIVE_PROCESS" {
		t.Fatalf("compute mode %s with a daemon", got)
	}
	assert.NilError(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	if got := r.mode("GPU-a"); got != "EXCLUSIVE_PROCESS" || !mps.ModesRecorded(r.dir) {
		t.Fatalf("compute mode %s after SIGKILL, recorded: %v", got, mps.ModesRecorded(r.dir))
	}
	r.restart()
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-b")})
	if got := r.mode("GPU-a"); got != "PROHIBITED" {
		t.Errorf("compute mode %s of a GPU that no daemon has, want PROHIBITED as before", got)
	}
	r.eventually("the daemon of the other GPU is ready", r.ready)
	r.Apply(t.Context(), nil)
	if got := r.mode("GPU-b"); got != "DEFAULT" || mps.ModesRecorded(r.dir) {
		t.Errorf("compute mode %s at the end, recorded: %v", got, mps.ModesRecorded(r.dir))
	}
}

// The next process serves the same GPU: the mode to restore is the one before the first process.
func TestADaemonAfterAKillRemembersTheModeBeforeIt(t *testing.T) {
	r := newRig(t)
	killed := r.supervisor("GPU-a", nil, "<nil>")
	assert.NilError(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	r.restart()
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	r.Apply(t.Context(), nil)
	if got := r.mode("GPU-a"); got != "DEFAULT" {
		t.Errorf("compute mode %s, want DEFAULT", got)
	}
}

func TestAModeThatSomeoneElseSetStays(t *testing.T) {
	r := newRig(t)
	assert.NilError(t, os.WriteFile(filepath.Join(r.bin, "mode.GPU-a"), []byte("EXCLUSIVE_PROCESS"), 0o600))
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	r.Apply(t.Context(), nil)
	if got := r.mode("GPU-a"); got != "EXCLUSIVE_PROCESS" {
		t.Errorf("compute mode %s, want EXCLUSIVE_PROCESS as before", got)
	}
}

func TestWithoutTheRightToMountNothingIsShared(t *testing.T) {
	r := newRig(t)
	// A user namespace of its own has no rights over the mounts of this one.
	me := []syscall.SysProcIDMap{{Size: 1}}
	r.supervisor("GPU-a", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: me, GidMappings: me},
		"/pipe: operation not permitted: MPS shares no GPU without it; run mps-control-daemon in a privileged container")
	if r.ready() {
		t.Error("ready without folders of its own")
	}
	if got := r.mode("GPU-a"); got != "DEFAULT" {
		t.Errorf("compute mode %s, want DEFAULT", got)
	}
}

func TestMountsThatStayInTheContainerAreReported(t *testing.T) {
	for host, fix := range map[string]string{
		"192.0.2.1": "mount the host's folder there with mountPropagation Bidirectional.",
		"":          "mount the host's folder there with docker run -v %[1]s:%[1]s:rshared.",
	} {
		t.Run("KUBERNETES_SERVICE_HOST="+host, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", host)
			mountsThatStayAreReported(t, fix)
		})
	}
}

func mountsThatStayAreReported(t *testing.T, fix string) {
	t.Helper()
	r := newRig(t)
	if strings.Contains(fix, "%") {
		fix = fmt.Sprintf(fix, r.root)
	}
	// Go makes all mounts of such a process private.
	r.supervisor("GPU-a", &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS},
		"serve "+shared+": mounts below MPS root "+r.root+" stay in this container, so the containers of clients cannot find the daemons: "+fix)
	if r.ready() {
		t.Error("ready without folders that the containers of clients see")
	}
	if got := r.mode("GPU-a"); got != "DEFAULT" {
		t.Errorf("compute mode %s, want DEFAULT", got)
	}
}

func TestMountsThatLeaveTheContainerAreUsed(t *testing.T) {
	r := newRig(t)
	assert.NilError(t, unix.Mount("shared", r.root, "tmpfs", 0, ""))
	t.Cleanup(func() {
		unmount(t, r.root)
		if err := unix.Unmount(r.root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	assert.NilError(t, unix.Mount("", r.root, "", unix.MS_SHARED, ""))
	r.supervisor("GPU-a", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "<nil>")
	if !r.ready() {
		t.Error("not ready")
	}
	if mounted := r.read("/proc/self/mountinfo"); !strings.Contains(mounted, " "+r.root+"/"+shared+"/pipe ") {
		t.Errorf("this process does not see the mounts of the other:\n%s", mounted)
	}
}
