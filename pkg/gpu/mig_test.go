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

func TestProfileGB(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		mig, total uint64
		want       int
	}{
		"1g of an A100 40GB":              {4864, 40960, 5},
		"7g of an A100 40GB":              {40192, 40960, 40},
		"1g of an A100 80GB":              {9856, 81920, 10},
		"1g of an H100 80GB":              {9984, 81559, 10},
		"4g of an H100 80GB":              {40448, 81559, 40},
		"1g of an H200":                   {16384, 143771, 18},
		"1g with twice the memory":        {33280, 143771, 35},
		"3g of an H200":                   {71424, 143771, 71},
		"1g of a B200":                    {21504, 183359, 23},
		"1g of an A30":                    {5952, 24576, 6},
		"4g of an A30":                    {24000, 24576, 24},
		"a GPU whose memory is not known": {4864, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gpu.ProfileGB(c.mig*mib, c.total*mib); got != c.want {
				t.Errorf("ProfileGB() = %d, want %d", got, c.want)
			}
		})
	}
}
