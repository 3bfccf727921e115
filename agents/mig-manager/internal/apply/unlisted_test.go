package apply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// An instance of a profile that NVML does not list stays. What does not fit beside it is refused with
// its name, and nothing is touched.
func TestUnlistedInstancesStay(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.run("mig mode 0 on")
	r.run("mig create 0 1g.20gb@2 1g.10gb@0")
	small := slices.IndexFunc(r.gpus()[0].Layout, func(i mig.Instance) bool { return i.Profile.GB == 20 })
	id := r.gpus()[0].Layout[small].ID
	r.run("set nvmlDeviceGetGpuInstanceProfileInfo.return=3@10") // NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2
	a := r.with(r)
	gpus, err := a.GPUs(t.Context())
	if err != nil || len(gpus[0].Unlisted) != 1 || gpus[0].Unlisted[0].ID != id {
		t.Fatalf("GPUs() = %+v, %v", gpus, err)
	}
	ask := func(want string) apply.Request {
		return apply.Request{Desired: desired(t, gpus, map[int]string{0: want})}
	}
	there := func() bool {
		return slices.ContainsFunc(r.gpus()[0].Layout, func(i mig.Instance) bool { return i.ID == id && i.Profile.GB == 20 && i.Placement.Start == 2 })
	}
	for _, want := range []string{"1g.10gb 1g.10gb 3g.40gb", "2g.20gb 2g.20gb 1g.10gb", "3g.40gb 2g.20gb"} {
		if _, err := a.Apply(t.Context(), ask(want)); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if !there() {
			t.Fatalf("%s: the instance is gone: %v", want, r.state())
		}
	}
	before := r.state()
	for want, inTheWay := range map[string]bool{"7g.80gb": true, "off": true, "2g.20gb 2g.20gb 2g.20gb": true, "4g.40gb 4g.40gb": false} {
		_, err := a.Apply(t.Context(), ask(want))
		found, is := errors.AsType[*apply.InTheWay](err)
		if err == nil || is != inTheWay {
			t.Errorf("%s: %v", want, err)
		}
		if is && (found.Unlisted[0].ID != id || !strings.Contains(err.Error(), "nvidia-smi mig -dgi -gi ")) {
			t.Errorf("%s: %v", want, err)
		}
		expect(t, want, r.state(), before)
	}
	// A checkpoint with an instance at the place is refused too, and one beside it is not.
	layout := r.gpus()[0].Layout
	req := ask("2g.20gb 3g.40gb")
	req.Layouts = map[gpu.UUID]mig.Layout{gpus[0].UUID: slices.DeleteFunc(layout, func(i mig.Instance) bool { return i.ID == id })}
	if _, err := a.Plan(t.Context(), req); err != nil {
		t.Errorf("a checkpoint of what there is: %v", err)
	}
	for i := range req.Layouts[gpus[0].UUID] {
		if in := &req.Layouts[gpus[0].UUID][i]; in.Profile.GPUSlices == 2 {
			in.Placement.Start = 2
		}
	}
	if _, err := a.Plan(t.Context(), req); err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("a checkpoint with another instance at the place: %v", err)
	}
}
