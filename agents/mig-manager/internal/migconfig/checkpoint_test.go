package migconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// upstream is a checkpoint that mig-parted writes: without places of compute instances.
const upstream = `{"Version":"v1","MigState":{"Devices":[` +
	`{"UUID":"GPU-0","MigMode":1,"GpuInstances":[` +
	`{"ProfileID":2,"Placement":{"Start":4,"Size":4},"ComputeInstances":[{"ProfileID":0,"EngProfileID":0},{"ProfileID":1,"EngProfileID":0}]},` +
	`{"ProfileID":9,"Placement":{"Start":0,"Size":2},"ComputeInstances":null}]},` +
	`{"UUID":"GPU-2","MigMode":0,"GpuInstances":null},` +
	`{"UUID":"GPU-3","MigMode":0,"GpuInstances":[]}]}}`

func TestACheckpointOfMIGParted(t *testing.T) {
	c := must[migconfig.Checkpoint](t)(migconfig.ReadCheckpoint("c.json", []byte(upstream)))
	got, err := c.States(node(t))
	assert.NilError(t, err)
	want := map[gpu.UUID]mig.State{
		"GPU-0": {Enabled: true, Pending: true, Layout: mig.Layout{
			{Profile: gpu.Profile{ComputeSlices: 1, GPUSlices: 1, GB: 10}, Placement: gpu.Placement{Size: 2}, Compute: []mig.Compute{}},
			{Profile: gpu.Profile{ComputeSlices: 3, GPUSlices: 3, GB: 20}, Placement: gpu.Placement{Start: 4, Size: 4}, Compute: []mig.Compute{
				{Slices: 2, Placement: gpu.Placement{Size: 2}}, {Slices: 1, Placement: gpu.Placement{Start: 2, Size: 1}},
			}},
		}},
		"GPU-2": {Layout: mig.Layout{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func TestACheckpointHasTheLayout(t *testing.T) {
	gpus := node(t)[:4]
	gpus[1].State = mig.State{Enabled: true, Pending: true, Layout: mig.Layout{
		{ID: 5, Profile: gpu.Profile{ComputeSlices: 4, GPUSlices: 4, GB: 20}, Placement: gpu.Placement{Size: 4}, Compute: []mig.Compute{
			{ID: 1, Slices: 1, Placement: gpu.Placement{Start: 1, Size: 1}}, {ID: 0, Slices: 2, Placement: gpu.Placement{Start: 2, Size: 2}},
		}},
	}}
	saved := must[migconfig.Checkpoint](t)(migconfig.NewCheckpoint(gpus))
	text := must[[]byte](t)(saved.JSON())
	const of1 = `{"UUID":"GPU-1","MigMode":1,"GpuInstances":[{"ProfileID":3,"Placement":{"Start":0,"Size":4},"ComputeInstances":[` +
		`{"ProfileID":0,"EngProfileID":0,"Placement":{"Start":1,"Size":1}},{"ProfileID":1,"EngProfileID":0,"Placement":{"Start":2,"Size":2}}]}]}`
	if !strings.Contains(string(text), of1) || strings.Contains(string(text), "GPU-3") {
		t.Errorf("the checkpoint is %s", text)
	}
	states, err := must[migconfig.Checkpoint](t)(migconfig.ReadCheckpoint("c.json", text)).States(gpus)
	assert.NilError(t, err)
	if got := states["GPU-1"]; !got.Enabled || !got.Layout.Equal(gpus[1].Layout) {
		t.Errorf("the layout is %+v, want %+v", got, gpus[1].State)
	}
	if _, err := migconfig.NewCheckpoint(node(t)); err == nil || err.Error() != "checkpoint GPU 4: nvmlDeviceGetHandleByIndex: GPU is lost" {
		t.Errorf("a checkpoint without a GPU that cannot be read: %v", err)
	}
}

func TestCheckpointRejects(t *testing.T) {
	device := func(instances string) string {
		return `{"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":1,"GpuInstances":[` + instances + `]}]}}`
	}
	const at = "c.json: MigState.Devices[0]: "
	for name, tc := range map[string]struct{ data, want string }{
		"no checkpoint":         {`{}`, "c.json:1: Version: is missing: must be v1\nc.json:1: MigState: is missing: must be a mapping with Devices"},
		"a config":              {"version: v1\nmig-configs: {}\n", "c.json:1: version: unknown key: did you mean Version?"},
		"the same GPU twice":    {`{"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":0},{"UUID":"GPU-0","MigMode":0}]}}`, "c.json:1: MigState.Devices[1]: has the UUID of MigState.Devices[0]"},
		"instances without MIG": {`{"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":0,"GpuInstances":[{"ProfileID":0,"Placement":{"Start":0,"Size":1}}]}]}}`, "MigMode is 0: a GPU has no instances then"},
		"another GPU":           {strings.ReplaceAll(device(""), "GPU-0", "GPU-9"), at + "the node has no GPU GPU-9: remove it from the checkpoint"},
		"MIG of a GPU without":  {strings.ReplaceAll(device(""), "GPU-0", "GPU-3"), at + "GPU 3: it has no MIG mode"},
		"another profile":       {device(`{"ProfileID":5,"Placement":{"Start":0,"Size":8}}`), at + "GPU 0: it has no GPU instance profile 5"},
		"another place":         {device(`{"ProfileID":1,"Placement":{"Start":1,"Size":2}}`), at + "GPU 0: a GPU instance 2g.10gb cannot be at 1:2"},
		"no place":              {device(`{"ProfileID":1}`), "c.json:1: MigState.Devices[0].GpuInstances[0].Placement: is missing: must be a mapping with Start and Size"},
		"places that overlap":   {device(`{"ProfileID":1,"Placement":{"Start":0,"Size":2}},{"ProfileID":0,"Placement":{"Start":1,"Size":1}}`), at + "GPU 0: the GPU instances 2g.10gb at 0 and 1g.5gb at 1 overlap"},
		"too many compute instances": {
			device(`{"ProfileID":1,"Placement":{"Start":0,"Size":2},"ComputeInstances":[{"ProfileID":1},{"ProfileID":0}]}`),
			at + "GPU 0: a GPU instance 2g.10gb cannot have all of its compute instances: 1c.2g.10gb does not fit",
		},
		"another compute instance": {
			device(`{"ProfileID":1,"Placement":{"Start":0,"Size":2},"ComputeInstances":[{"ProfileID":2}]}`),
			at + "GPU 0: a GPU instance 2g.10gb has no compute instance profile 2",
		},
		"another engine profile": {
			device(`{"ProfileID":1,"Placement":{"Start":0,"Size":2},"ComputeInstances":[{"ProfileID":0,"EngProfileID":1}]}`),
			`EngProfileID: invalid value "1": must be an integer from 0 to 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := migconfig.ReadCheckpoint("c.json", []byte(tc.data))
			if err == nil {
				_, err = c.States(node(t))
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
