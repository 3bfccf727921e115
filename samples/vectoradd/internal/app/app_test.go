package app_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/samples/vectoradd/internal/app"
)

const passed = `[Vector addition of 50000 elements]
Copy input data from the host memory to the CUDA device
CUDA kernel launch with 196 blocks of 256 threads
Copy output data from the CUDA device to the host memory
Test PASSED
Done
`

// fakeCUDA compiles testdata/fakecuda.c with the given macros.
func fakeCUDA(t *testing.T, macros ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is missing: apt-get install build-essential")
	}
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	args := append([]string{"-shared", "-fPIC", "-o", library, "testdata/fakecuda.c"}, macros...)
	if out, err := exec.CommandContext(t.Context(), gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile testdata/fakecuda.c: %v\n%s", err, out)
	}
	return library
}

// run returns the exit code and the output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	// A folder without dev/, so that the device nodes of the machine do not matter.
	args = append([]string{"vectoradd", "--dev-root", t.TempDir()}, args...)
	code = app.Main(args, &o, &e)
	return code, o.String(), e.String()
}

func TestItAddsAndChecksEveryElement(t *testing.T) {
	code, stdout, stderr := run(t, "--cuda-library", fakeCUDA(t))
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if diff := cmp.Diff(passed, stdout); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

func TestAResultThatCannotBePrintedIsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("%v: the test needs it to simulate a full disk", err)
	}
	defer full.Close()
	for name, args := range map[string][]string{"the sum": nil, "the list": {"--list"}} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := app.Main(append([]string{"vectoradd", "--cuda-library", fakeCUDA(t)}, args...), full, &stderr)
			if code != 1 || !strings.Contains(stderr.String(), "no space left") {
				t.Errorf("exit code %d, stderr %q, want 1 and the cause", code, &stderr)
			}
		})
	}
}

func TestListNamesTheDevicesAsNvidiaSmiDoes(t *testing.T) {
	tests := map[string]struct {
		macros []string
		want   string
	}{
		"two GPUs": {
			[]string{"-DDEVICES=2"},
			"GPU 0: Host CPU (UUID: GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0)\n" +
				"GPU 1: Host CPU (UUID: GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1)\n",
		},
		"a MIG device": {
			[]string{`-DDEVICE_NAME="NVIDIA A100-SXM4-40GB MIG 1g.5gb"`},
			"GPU 0: NVIDIA A100-SXM4-40GB MIG 1g.5gb (UUID: MIG-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0)\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, "--list", "--cuda-library", fakeCUDA(t, tc.macros...))
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			if diff := cmp.Diff(tc.want, stdout); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsNameTheCauseAndTheFix(t *testing.T) {
	tests := map[string]struct {
		macros []string
		args   []string
		// want lists parts of the error: the object, the cause and the fix.
		want []string
	}{
		"a kernel that gets the last element wrong": {[]string{"-DKERNEL=1"}, nil, []string{"element 49999", "computes wrong results"}},
		"a kernel that writes nothing":              {[]string{"-DKERNEL=2"}, nil, []string{"element 0 is NaN"}},
		"no device for cuInit, no device nodes":     {[]string{"-DFAIL_cuInit=100"}, nil, []string{"cuInit", "(100)", "no node of a GPU", "(docker run --gpus 1)"}},
		"a driver that lists no device":             {[]string{"-DDEVICES=0"}, nil, []string{"no device is visible", "(docker run --gpus 1)"}},
		"a driver that is too old":                  {[]string{"-DVERSION=7050"}, nil, []string{"CUDA 7.5", "9.2 or newer", "update the NVIDIA driver"}},
		"a library without a symbol":                {[]string{"-DWITHOUT_LAUNCH"}, nil, []string{"cuLaunchKernel", "symbol missing", "update the driver"}},
		"a GPU that the kernel does not support":    {[]string{"-DFAIL_cuModuleLoadData=209"}, nil, []string{"cuModuleLoadData", "not supported by this GPU", "5.2"}},
		"PTX that the driver does not support":      {[]string{"-DFAIL_cuModuleLoadData=222"}, nil, []string{"not supported by this driver", "update it"}},
		"no memory left":                            {[]string{"-DFAIL_cuMemAlloc=2"}, nil, []string{"cuMemAlloc", "in use", "nvidia-smi"}},
		"a GPU that fails while it computes":        {[]string{"-DFAIL_cuCtxSynchronize=719"}, nil, []string{"cuCtxSynchronize", "(719)", "dmesg"}},
		"a device that does not exist":              {nil, []string{"--device", "3"}, []string{"device 3", "only 1 visible", "--list"}},
		"no elements":                               {nil, []string{"--elements", "0"}, []string{"--elements", "VECTORADD_ELEMENTS", `invalid value "0"`, "1 to"}},
		"a negative device":                         {nil, []string{"--device=-1"}, []string{"--device", "VECTORADD_DEVICE", `invalid value "-1"`}},
		"an unknown flag":                           {nil, []string{"--gpus", "1"}, []string{"-gpus"}},
		"an argument":                               {nil, []string{"now"}, []string{`"now"`, "--help"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"--cuda-library", fakeCUDA(t, tc.macros...)}, tc.args...)...)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if strings.Contains(stdout+stderr, "PASSED") || strings.Contains(stdout+stderr, "Done") {
				t.Errorf("it reports success:\n%s%s", stdout, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q: %s", want, stderr)
				}
			}
			if strings.Count(strings.TrimSpace(stderr), "\n") != 0 {
				t.Errorf("stderr has more than one line: %s", stderr)
			}
		})
	}
}

// TestAPodGetsNoAdviceForDocker runs where the kubelet has set its variables.
func TestAPodGetsNoAdviceForDocker(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	for name, args := range map[string][]string{
		"no device nodes": {"--cuda-library", fakeCUDA(t, "-DFAIL_cuInit=100")}, "no library": {"--cuda-library", "libcuda-of-nobody.so.1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, stderr := run(t, args...)
			if !strings.Contains(stderr, "(resources.limits: nvidia.com/gpu: 1)") || strings.Contains(stderr, "docker") {
				t.Errorf("stderr is no advice for a pod: %s", stderr)
			}
		})
	}
}

// TestAVariableIsNamed sets a flag by its variable, as a manifest does.
func TestAVariableIsNamed(t *testing.T) {
	t.Setenv("VECTORADD_ELEMENTS", "0")
	if _, _, stderr := run(t); !strings.HasPrefix(stderr, "vectoradd: flag --elements (environment variable VECTORADD_ELEMENTS): ") {
		t.Errorf("stderr does not name the variable: %s", stderr)
	}
}

func TestErrorNamesTheLibraryThatDoesNotLoad(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(text, []byte("no ELF file, but long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, library := range map[string]string{
		"a file that does not exist": filepath.Join(t.TempDir(), "libcuda.so.1"),
		"a file that is not ELF":     text,
		"a name that is not in path": "libcuda-of-nobody.so.1",
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, "--cuda-library", library)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			for _, want := range []string{library, "not loadable", "(docker run --gpus 1)", "--cuda-library"} {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q: %s", want, stderr)
				}
			}
		})
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	t.Setenv("CUDA_LIBRARY", fakeCUDA(t))
	t.Setenv("VECTORADD_ELEMENTS", "257")
	code, stdout, stderr := run(t)
	if code != 0 || !strings.Contains(stdout, "of 257 elements") || !strings.Contains(stdout, "2 blocks") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestCopiesAreCheckedAndMeasured(t *testing.T) {
	figure := regexp.MustCompile(`[0-9]+\.[0-9]`)
	for name, tc := range map[string]struct {
		macros []string
		want   string
		err    []string
	}{
		"devices that reach each other": {
			[]string{"-DDEVICES=2"},
			"[Copies of 32 MiB, in GB/s]\nGPU 0: host to device N, device to host N\nGPU 1: host to device N, device to host N\n" +
				"GPU 0 to GPU 1: N (peer access)\nGPU 1 to GPU 0: N (peer access)\n", nil,
		},
		"devices that do not": {
			[]string{"-DDEVICES=2", "-DPEERS=0"},
			"[Copies of 32 MiB, in GB/s]\nGPU 0: host to device N, device to host N\nGPU 1: host to device N, device to host N\n" +
				"GPU 0 to GPU 1: N (through the host)\nGPU 1 to GPU 0: N (through the host)\n", nil,
		},
		"copies that lose data between devices": {
			[]string{"-DDEVICES=2", "-DDAMAGED=4"},
			"",
			[]string{"copy from GPU-a0a0a0a0-", "to GPU-a1a1a1a1-", "copy from GPU-a1a1a1a1-", "element 8388607", "the copy is damaged"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, "--cuda-library", fakeCUDA(t, tc.macros...), "--all-devices", "--copies", "--elements", "10")
			_, copied, _ := strings.Cut(stdout, "[Copies")
			if tc.err == nil {
				if diff := cmp.Diff(tc.want, figure.ReplaceAllString("[Copies"+copied, "N")); diff != "" || code != 0 || stderr != "" {
					t.Errorf("exit code %d, stderr %q (-want +got):\n%s", code, stderr, diff)
				}
				return
			}
			for _, want := range tc.err {
				if code != 1 || !strings.Contains(stderr, want) {
					t.Errorf("exit code %d, stderr lacks %q: %s", code, want, stderr)
				}
			}
		})
	}
}

func TestAllDevicesAreTried(t *testing.T) {
	code, stdout, stderr := run(t, "--cuda-library", fakeCUDA(t, "-DDEVICES=3", "-DKERNEL=1"), "--all-devices")
	for i, uuid := range []string{"GPU-a0a0a0a0", "GPU-a1a1a1a1", "GPU-a2a2a2a2"} {
		if code != 1 || !strings.Contains(stdout, fmt.Sprintf("GPU %d: Host CPU (UUID: %s", i, uuid)) || !strings.Contains(stderr, uuid) {
			t.Errorf("exit code %d, device %d is not named: %s%s", code, i, stdout, stderr)
		}
	}
	code, _, stderr = run(t, "--cuda-library", fakeCUDA(t), "--all-devices", "--device", "1")
	if code == 0 || !strings.Contains(stderr, "remove one of them") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
