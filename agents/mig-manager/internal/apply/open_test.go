package apply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/apply"
)

// What holds a GPU without a context, which is what the driver lists, is named by who has the GPU's
// device node open, and by the modules of displays.
func TestWhatTheDriverDoesNotListIsNamed(t *testing.T) {
	const usual = "usually nvidia-persistenced, nv-hostengine of DCGM or an X server of the host has it open"
	for name, c := range map[string]struct {
		// open is what process 812 has open.
		open, modules string
		want          []string
		not           string
	}{
		"by nobody":           {"/dev/nvidiactl", "nvidia 123 0 - Live 0x0\n", []string{usual, "fuser -v /dev/nvidia*", "lsmod"}, "display"},
		"by a daemon":         {"/dev/nvidia0", "", []string{"process 812 (nvidia-persiste) of nvidia-persistenced.service has it open"}, "usually"},
		"of another GPU":      {"/dev/nvidia1", "", []string{usual}, "812"},
		"by a display, maybe": {"/dev/null", "nvidia_drm 1 0 - Live 0x0\nnvidia_modeset 1 1 nvidia_drm, Live 0x0\nnvidia 1 2 - Live 0x0\n", []string{usual, "or a display uses it through nvidia_drm and nvidia_modeset"}, "812"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=a30")
			proc := t.TempDir()
			for file, text := range map[string]string{
				"driver/nvidia/gpus/" + r.gpus()[0].PCI.BusID + "/information": "Device Minor: \t 0\n", "modules": c.modules,
				"812/comm": "nvidia-persiste\n", "812/cgroup": "0::/system.slice/nvidia-persistenced.service\n",
				"813/comm": "this process\n",
			} {
				path := filepath.Join(proc, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for pid, node := range map[int]string{812: c.open, 813: "/dev/nvidia0"} {
				dir := filepath.Join(proc, fmt.Sprint(pid), "fd")
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(node, filepath.Join(dir, "7")), os.Symlink("/dev/null", filepath.Join(dir, "0"))); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("813", filepath.Join(proc, "self")); err != nil {
				t.Fatal(err)
			}
			a, err := apply.New(apply.Config{
				Session: r.session, StateDir: filepath.Join(r.dir, "state"), Patience: 1, Processes: apply.Processes{Proc: proc},
				Reset: resetFunc(func() error { return apply.ErrBusy }),
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.Apply(context.WithoutCancel(t.Context()), r.ask(map[int]string{0: "2g.12gb"}))
			if err == nil {
				t.Fatal("a GPU that is busy was reset")
			}
			for _, part := range append(c.want, "lists no process") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), c.not) {
				t.Errorf("the error has %q: %v", c.not, err)
			}
		})
	}
}
