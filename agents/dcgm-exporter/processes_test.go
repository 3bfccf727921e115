package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// listed is the part of the output of the command processes that the test looks at.
type listed struct {
	Processes []struct {
		GPU         int
		UUID        string
		GPUInstance *uint32
		PID         int
		Command     string
		MemoryMiB   uint64
	}
}

// TestTheCommandProcesses has a process on a GPU and one on a GPU instance, and a GPU that is lost.
func TestTheCommandProcesses(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=3", "--model=h100-80")
	ids := uuids(t, n)
	list := func() (listed, error) {
		cmd := agenttest.Command(t, n, "processes", "--run-root", t.TempDir(), "--log-level=error")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var got listed
		assert.NilError(t, json.Unmarshal(out, &got))
		return got, err
	}
	got, err := list()
	assert.NilError(t, err)
	if got.Processes == nil || len(got.Processes) > 0 {
		t.Errorf("without processes: %+v", got)
	}
	n.Run("mig mode", "1", "on")
	n.Run("mig create", "1", "3g.40gb")
	n.Run("proc add", "--memory=2048", "--pid="+strconv.Itoa(os.Getpid()), "0")
	n.Run("proc add", "--memory=100", "--instance=2/0", "1")
	n.Run("lose", "2")
	got, err = list()
	if err == nil {
		t.Error("no error says that the processes on a GPU are not known")
	}
	if len(got.Processes) != 2 {
		t.Fatalf("%+v", got)
	}
	whole, part := got.Processes[0], got.Processes[1]
	if whole.UUID != ids[0] || whole.GPU != 0 || whole.PID != os.Getpid() || !strings.HasPrefix(filepath.Base(os.Args[0]), whole.Command) || whole.Command == "" || whole.MemoryMiB != 2048 || whole.GPUInstance != nil {
		t.Errorf("on a GPU: %+v", whole)
	}
	if part.GPU != 1 || part.GPUInstance == nil || *part.GPUInstance != 2 || part.MemoryMiB != 100 {
		t.Errorf("on a GPU instance: %+v", part)
	}
}
