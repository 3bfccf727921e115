package mps_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

func TestPlan(t *testing.T) {
	n := gputest.Node(gputest.A100, 4)
	n.GPUs[3].Fault = &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo_v2", Reason: "GPU is lost"}
	id := func(i int) gpu.UUID { return n.GPUs[i].UUID }
	device := func(i, replicas int) resource.Device {
		return resource.Device{UUID: id(i), GPU: i, Replicas: replicas, MPS: true}
	}
	for name, tc := range map[string]struct {
		set  resource.Set
		want []mps.Daemon
	}{
		"each GPU has a daemon, or the resource has one if containers can get several GPUs": {
			set: resource.Set{Resources: []resource.Resource{
				{Name: "nvidia.com/big", Sharing: config.SharingMPS, FailRequestsGreaterThanOne: true, Devices: []resource.Device{device(2, 2), device(1, 3)}},
				{Name: shared, Sharing: config.SharingMPS, Devices: []resource.Device{device(0, 4), device(3, 8)}},
			}},
			want: []mps.Daemon{
				{Folder: string(id(1)), Resource: "nvidia.com/big", GPUs: []mps.Share{{UUID: id(1), MemoryMiB: 13653}}, ActiveThreadPercentage: 33, Clients: 3},
				{Folder: string(id(2)), Resource: "nvidia.com/big", GPUs: []mps.Share{{UUID: id(2), MemoryMiB: 20480}}, ActiveThreadPercentage: 50, Clients: 2},
				{Folder: shared, Resource: shared, GPUs: []mps.Share{{UUID: id(0), MemoryMiB: 10240}, {UUID: id(3), MemoryMiB: 5120, Lost: true}}, ActiveThreadPercentage: 12, Clients: 12},
			},
		},
		"what is shared in another way, or not at all, has none": {
			set: resource.Set{Resources: []resource.Resource{
				{Name: "nvidia.com/a", Sharing: config.SharingTimeSlicing, Devices: []resource.Device{{UUID: id(0), Replicas: 4}}},
				{Name: "nvidia.com/b", Sharing: config.SharingMPS, Devices: []resource.Device{{UUID: id(1), GPU: 1, Replicas: 1}}},
			}},
		},
		"one replica has one client, which gets all of the GPU": {
			set: resource.Set{Resources: []resource.Resource{
				{Name: shared, Sharing: config.SharingMPS, Devices: []resource.Device{device(0, 1)}},
			}},
			want: []mps.Daemon{{Folder: shared, Resource: shared, GPUs: []mps.Share{{UUID: id(0), MemoryMiB: 40960}}, ActiveThreadPercentage: 100, Clients: 1}},
		},
		"a GPU that does not answer is there, and no daemon starts with it": {
			set: resource.Set{Resources: []resource.Resource{
				{Name: shared, Sharing: config.SharingMPS, Devices: []resource.Device{device(0, 4), device(3, 4)}},
			}},
			want: []mps.Daemon{{
				Folder: shared, Resource: shared, ActiveThreadPercentage: 25, Clients: 8,
				GPUs: []mps.Share{{UUID: id(0), MemoryMiB: 10240}, {UUID: id(3), MemoryMiB: 10240, Lost: true}},
			}},
		},
		"a GPU of unknown memory has no limit": {
			set: resource.Set{Resources: []resource.Resource{
				{Name: shared, Sharing: config.SharingMPS, Devices: []resource.Device{{UUID: "GPU-x", GPU: 9, Replicas: 200, MPS: true}}},
			}},
			want: []mps.Daemon{{Folder: shared, Resource: shared, GPUs: []mps.Share{{UUID: "GPU-x"}}, ActiveThreadPercentage: 1, Clients: 200}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mps.Plan(n, tc.set)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADaemonIsReadyWhenItAnswersAndHasItsLimits(t *testing.T) {
	r := newRig(t)
	if r.ready() {
		t.Fatal("ready without a daemon")
	}
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a", "GPU-b")})
	r.eventually("the daemon is ready", r.ready)
	want := "visible GPU-a,GPU-b\nset_default_active_thread_percentage 25\n" +
		"set_default_device_pinned_mem_limit 0 1000M\nset_default_device_pinned_mem_limit 1 1000M\n"
	if diff := cmp.Diff(want, r.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	r.eventually("the supervisor is ready", func() bool { return r.Ready() == nil })
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a", "GPU-b")})
	if got := r.commands(); got != want {
		t.Errorf("a daemon that stays as it is was started again: %s", got)
	}
	r.Apply(t.Context(), nil)
	if r.ready() {
		t.Error("ready after the daemon was asked to quit")
	}
	wantSMI := "-i GPU-a -c EXCLUSIVE_PROCESS\n-i GPU-b -c EXCLUSIVE_PROCESS\n-i GPU-a -c DEFAULT\n-i GPU-b -c DEFAULT\n"
	if diff := cmp.Diff(wantSMI, r.read(filepath.Join(r.bin, "smi"))); diff != "" {
		t.Errorf("compute modes (-want +got):\n%s", diff)
	}
}

// Another program may clear the folder that has the files of all agents.
func TestAReadyFileThatIsRemovedIsWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	assert.NilError(t, os.Remove(filepath.Join(r.root, shared, "ready")))
	r.eventually("the daemon is ready again", r.ready)
	if n := strings.Count(r.commands(), "visible"); n != 1 {
		t.Errorf("the daemon started %d times, want once", n)
	}
}

func TestADaemonThatEndsIsStartedAgain(t *testing.T) {
	r := newRig(t)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	r.command("crash")
	r.eventually("the resource is not ready while there is no daemon", func() bool { return !r.ready() })
	r.eventually("the supervisor says why", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "serve "+shared) && strings.Contains(err.Error(), "out of memory")
	})
	r.eventually("the daemon is ready again", r.ready)
	if n := strings.Count(r.commands(), "visible"); n != 2 {
		t.Errorf("started %d times, want 2", n)
	}
}

func TestOtherGPUsAreAnotherDaemon(t *testing.T) {
	r := newRig(t)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-b")})
	r.eventually("the daemon of the other GPU is ready", func() bool {
		return r.ready() && strings.Contains(r.commands(), "visible GPU-b")
	})
}

// A GPU that falls off the bus takes its own clients with it, and no others.
func TestAGPUThatIsLostLeavesTheOthersAlone(t *testing.T) {
	r := newRig(t)
	lost := daemon("GPU-a", "GPU-b")
	lost.GPUs[0].Lost = true
	started := func(n int) bool { return strings.Count(r.commands(), "visible") == n }
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a", "GPU-b")})
	r.eventually("the daemon is ready", r.ready)

	r.Apply(t.Context(), []mps.Daemon{lost})
	if !started(1) || !r.ready() {
		t.Fatalf("the clients of GPU-b were ended: %s", r.commands())
	}
	r.command("crash")
	r.eventually("it starts again without the GPU that is lost", func() bool {
		return started(2) && strings.Contains(r.commands(), "visible GPU-b\n") && r.ready()
	})
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a", "GPU-b")})
	r.eventually("the GPU that is back is served", func() bool { return started(3) && r.ready() })

	lost.GPUs[1].Lost = true
	r.Apply(t.Context(), []mps.Daemon{lost})
	if r.ready() {
		t.Error("ready with no GPU that answers")
	}
	if err := r.Ready(); err != nil {
		t.Errorf("Ready() = %v for a daemon that cannot be", err)
	}
}

func TestAGPUThatCannotBeSetUpIsNamed(t *testing.T) {
	r := newRig(t)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a", "GPU-refused")})
	r.eventually("the supervisor names the GPU", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "nvidia-smi -i GPU-refused -c EXCLUSIVE_PROCESS") &&
			strings.Contains(err.Error(), "Unable to set the compute mode")
	})
	if r.ready() {
		t.Error("ready without a daemon")
	}
}

func TestFindProgramsSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root, mpsRoot := t.TempDir(), t.TempDir()
	_, err := mps.FindPrograms(root, mpsRoot)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), root) {
		t.Errorf("FindPrograms() = %v", err)
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	for _, name := range []string{"nvidia-cuda-mps-control", "nvidia-smi"} {
		if err := os.WriteFile(filepath.Join(root, "usr/bin", name), nil, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if _, err := mps.FindPrograms(root, mpsRoot); err == nil || !strings.Contains(err.Error(), "would not see "+mpsRoot) {
		t.Errorf("FindPrograms() with a folder that the driver root lacks = %v", err)
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(mpsRoot)), 0o755))
	assert.NilError(t, os.Symlink(mpsRoot, filepath.Join(root, mpsRoot)))
	p, err := mps.FindPrograms(root, mpsRoot)
	if err != nil || p.Root != root {
		t.Errorf("FindPrograms() = %+v, %v, want those of the driver root", p, err)
	}
}
