package nvml

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverroot"
)

func TestFixOfAnInitializationThatFails(t *testing.T) {
	denied := errors.New("the device cgroup of this process does not allow /dev/nvidiactl")
	for name, c := range map[string]struct {
		ret    gonvml.Return
		denied error
		want   []string
	}{
		"an unknown error, and the cgroup denies":  {gonvml.ERROR_UNKNOWN, denied, []string{denied.Error(), "device nodes", "privileged"}},
		"an unknown error of the driver":           {gonvml.ERROR_UNKNOWN, nil, nil},
		"another error, and the cgroup denies too": {gonvml.ERROR_GPU_IS_LOST, denied, nil},
		"no permission": {gonvml.ERROR_NO_PERMISSION, nil, []string{"may not open", "device nodes", "privileged"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Session{}).initFix(c.ret, c.denied)
			if (got == "") != (c.want == nil) {
				t.Errorf("initFix() = %q, want something: %v", got, c.want != nil)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("initFix() = %q, want %q in it", got, want)
				}
			}
		})
	}
}

// The reader of the error needs the cause and the fix; where it was searched is for
// those who know that the library is there.
func TestALibraryThatIsNowhere(t *testing.T) {
	root, err := driverroot.New(driverroot.Config{HostPath: t.TempDir()})
	assert.NilError(t, err)
	var logged strings.Builder
	s, err := New(Config{DriverRoot: root, Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	assert.NilError(t, err)
	const install = ": install the driver, or set the driver root to where it is"
	for host, fix := range map[string]string{"192.0.2.1": install, "": install + " (docker run -v /:/driver-root:ro, or --gpus all)"} {
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		_, err = s.library()
		if err == nil {
			t.Skip("this machine has no lack of NVML: the dynamic loader finds it")
		}
		if want := "no NVIDIA driver: libnvidia-ml.so.1 is not in driver root " + root.HostPath() + fix; err.Error() != want {
			t.Errorf("library() = %q, want %q", err, want)
		}
	}
	if !strings.Contains(logged.String(), "ld.so.cache") {
		t.Errorf("logged %q, want the searched folders", logged.String())
	}
}
