package require_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/require"
)

func TestCheck(t *testing.T) {
	driver := require.Driver{Version: "550.54.15", CUDA: "12.4"}
	a100 := require.GPU{Name: "0", Arch: "8.0", Brand: "tesla"}
	const image = "cuda>=12.6 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=550,driver<551"
	for condition, want := range map[string]bool{
		"cuda>=12.4":                          true,
		"cuda>=12.5":                          false,
		"cuda>=12.4.0":                        true,
		"cuda>12.4":                           false,
		"cuda<=12.4":                          true,
		"cuda<12.10":                          true,
		"cuda=12.4":                           true,
		"cuda!=12.4":                          false,
		"cuda!=11":                            true,
		"driver>=550,driver<551":              true,
		"driver>=550.54.16":                   false,
		"arch>=7.5":                           true,
		"arch>=9.0":                           false,
		"brand=Tesla":                         true,
		"brand!=tesla":                        false,
		"brand!=geforce":                      true,
		"cuda>=12.6 arch>=8.0":                true,
		"cuda>=12.6 arch>=9.0":                false,
		"cuda>=12.6  brand=geforce,arch>=8.0": false,
		"future>=1 cuda>=12.4":                true,
		"future>=1":                           false,
		"cuda>=12.4,future=x":                 false,
		image:                                 true,
	} {
		if err := require.Check("NVIDIA_REQUIRE_CUDA", condition, driver, a100); (err == nil) != want {
			t.Errorf("%s: %v, want %v", condition, err, want)
		}
	}
}

func TestCheckNeedsEveryGPU(t *testing.T) {
	gpus := []require.GPU{{Name: "0", Arch: "8.0", Brand: "tesla"}, {Name: "1", Arch: "7.0", Brand: "tesla"}}
	err := require.Check("NVIDIA_REQUIRE_ARCH", "arch>=7.5", require.Driver{}, gpus...)
	assert.ErrorContains(t, err, "GPU 1 does not meet NVIDIA_REQUIRE_ARCH=arch>=7.5: arch is 7.0: ")
	if err := require.Check("X", "driver>=1", require.Driver{Version: "1.2"}); err != nil {
		t.Errorf("Check() without GPUs = %v", err)
	}
}

func TestCheckSaysWhatIsNotKnown(t *testing.T) {
	err := require.Check("X", "cuda>=12 brand=tesla,driver>=550 later=1", require.Driver{Version: "390.1"}, require.GPU{Name: "0"})
	const want = "GPU 0 does not meet X=cuda>=12 brand=tesla,driver>=550 later=1: driver is 390.1, " +
		"cuda is unknown (write the CDI spec again with nvidia-ctk cdi generate), brand is unknown (write the CDI spec again with nvidia-ctk cdi generate), " +
		"there is no property later: update the driver, or ignore requirements with NVIDIA_DISABLE_REQUIRE=true"
	assert.Error(t, err, want)
}

func TestCUDAOf(t *testing.T) {
	for driver, want := range map[string]string{"580.95.05": "13.0", "579.1": "12.9", "550.54.15": "12.4", "535.1": "12.2", "450.1": "11.0", "418.39": "10.1", "610.43.02": "13.3", "595.71.05": "13.2", "590.48.01": "13.1", "9999.1": "13.4", "396.26": "", "": "", "x": ""} {
		if got := require.CUDAOf(driver); got != want {
			t.Errorf("CUDAOf(%q) = %q, want %q", driver, got, want)
		}
	}
	if err := require.Check("X", "cuda>=12.4", require.Driver{Version: "550.54.15"}); err != nil {
		t.Errorf("Check() of a driver whose CUDA version only follows from its own = %v", err)
	}
}

func TestCheckRejects(t *testing.T) {
	for _, condition := range []string{"cuda", ">=1", "cuda>=", "cuda>=x", "cuda==1", "cuda>=1.", "brand>tesla", "brand=", "brand<tesla", "driver>=550 arch", ",", "driver~1", "cuda>=99999999999"} {
		err := require.Check("X", condition, require.Driver{Version: "1", CUDA: "1"})
		if err == nil || !strings.Contains(err.Error(), "check X=") {
			t.Errorf("%q gives %v, want that it is invalid", condition, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("cuda>=12.6 brand=tesla,driver>=470,driver<471")
	f.Add("arch!=8 x=\x00")
	f.Fuzz(func(t *testing.T, condition string) {
		d, g := require.Driver{Version: "550.54", CUDA: "12.4"}, require.GPU{Name: "0", Arch: "8.0", Brand: "tesla"}
		err := require.Check("X", condition, d, g)
		if err != nil && strings.ContainsAny(err.Error(), "\x00\x1b\n") {
			t.Fatalf("error is not printable: %q", err)
		}
		// What one term meets, it also meets beside another.
		if err == nil && require.Check("X", condition+" cuda>=99", d, g) != nil {
			t.Fatalf("%q holds, but not with an alternative", condition)
		}
	})
}
