package nvml

import (
	"errors"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

func TestFixOfAnInitialisationThatFails(t *testing.T) {
	denied := errors.New("the device cgroup of this process does not allow /dev/nvidiactl")
	for name, c := range map[string]struct {
		ret    gonvml.Return
		denied error
		want   []string
	}{
		"an unknown error, and the cgroup refuses":  {gonvml.ERROR_UNKNOWN, denied, []string{denied.Error(), "--device", "privileged"}},
		"an unknown error of the driver":            {gonvml.ERROR_UNKNOWN, nil, nil},
		"another error, and the cgroup refuses too": {gonvml.ERROR_GPU_IS_LOST, denied, nil},
		"no permission": {gonvml.ERROR_NO_PERMISSION, nil, []string{"may not open", "--device", "privileged"}},
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
