package exposition_test

import (
	"strings"
	"testing"

	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

func TestANumberAsALabel(t *testing.T) {
	s, o := state(), options(t)
	s.GPUs[0].Sample.GPU[telemetry.DCGM_FI_DEV_GPU_MINOR_NUMBER] = 3
	o.Metrics = list(t, few+"DCGM_FI_DEV_MINOR_NUMBER, label, Minor\n")
	if got := text(t, s, o); !strings.Contains(got, `DCGM_FI_DEV_MINOR_NUMBER="3"`) {
		t.Error(got)
	}
}
