package gpu_test

import (
	"encoding/json"
	"testing"

	"outrigger.dev/pkg/gpu"
)

func TestProfileText(t *testing.T) {
	for text, want := range map[string]gpu.Profile{
		"1g.5gb":         {ComputeSlices: 1, GPUSlices: 1, GB: 5},
		"7g.141gb":       {ComputeSlices: 7, GPUSlices: 7, GB: 141},
		"1c.3g.20gb":     {ComputeSlices: 1, GPUSlices: 3, GB: 20},
		"1g.10gb+me":     {ComputeSlices: 1, GPUSlices: 1, GB: 10, Attribute: "+me"},
		"1g.24gb+me.all": {ComputeSlices: 1, GPUSlices: 1, GB: 24, Attribute: "+me.all"},
		"1g.24gb+gfx":    {ComputeSlices: 1, GPUSlices: 1, GB: 24, Attribute: "+gfx"},
		"2g.48gb-me":     {ComputeSlices: 2, GPUSlices: 2, GB: 48, Attribute: "-me"},
	} {
		got, err := gpu.ParseProfile(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseProfile(%q) = %+v, %v, written %q, want %+v", text, got, err, got, want)
		}
		var back gpu.Profile
		data, err := json.Marshal(got)
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || back != want {
			t.Errorf("%s through JSON is %+v, %v", text, back, err)
		}
	}
	for _, text := range []string{"", "1g", "1g.5GB", "0g.5gb", "4c.3g.20gb", "1g.5gb+", "x1g.5gb", "1g.5gb ", "1g.05gb"} {
		if p, err := gpu.ParseProfile(text); err == nil {
			t.Errorf("ParseProfile(%q) = %+v, want an error", text, p)
		}
	}
}
