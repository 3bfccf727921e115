package app

import "testing"

func TestCommandsInHintsWorkOnTheNode(t *testing.T) {
	for text, want := range map[string]string{
		`switch it on first (gpu-sim mig mode 0 on)`:           `switch it on first (gpu-sim mig mode --root /tmp/x 0 on)`,
		`see "gpu-sim mig list"`:                               `see "gpu-sim mig list --root /tmp/x"`,
		`a (gpu-sim heal 3); b (gpu-sim proc end 0 7)`:         `a (gpu-sim heal --root /tmp/x 3); b (gpu-sim proc end --root /tmp/x 0 7)`,
		`make one with "gpu-sim create --root /y"`:             `make one with "gpu-sim create --root /y"`,
		`see "gpu-sim set --help"`:                             `see "gpu-sim set --help"`,
		`use "gpu-sim exec -- COMMAND"`:                        `use "gpu-sim exec --root /tmp/x -- COMMAND"`,
		`the program gpu-sim is missing in the folder gpu-sim`: `the program gpu-sim is missing in the folder gpu-sim`,
	} {
		if got := withRoot(text, "/tmp/x"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := withRoot(text, DefaultRoot); got != text {
			t.Errorf("got %q for the default root, want it unchanged", got)
		}
		t.Setenv("GPU_SIM_ROOT", "/tmp/x")
		if got := withRoot(text, "/tmp/x"); got != text {
			t.Errorf("got %q with GPU_SIM_ROOT, want it unchanged", got)
		}
		t.Setenv("GPU_SIM_ROOT", "")
	}
}
