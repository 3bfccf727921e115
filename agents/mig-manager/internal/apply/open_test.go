package apply_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/procowner"
)

// What holds a GPU without a context, which is what the driver lists, is named by who has the GPU's
// device node open or mapped, whatever path that has, and by the modules of displays. The GPU has the
// numbers of /dev/null here.
func TestWhatTheDriverDoesNotListIsNamed(t *testing.T) {
	const usual = "usually nvidia-persistenced, nv-hostengine of DCGM or an X server of the host has it open"
	daemon := []string{"process 812 (nvidia-persiste) of nvidia-persistenced.service has it open"}
	other := filepath.Join(t.TempDir(), "nvidia0")
	assert.NilError(t, os.Symlink("/dev/null", other))
	for name, c := range map[string]struct {
		// open is what process 812 has open, and mapped what it has in its memory.
		open, mapped, modules string
		want                  []string
		not                   string
	}{
		"by nobody":           {"/dev/zero", "", "nvidia 123 0 - Live 0x0\n", []string{usual, "fuser -v /dev/nvidia*", "lsmod"}, "display"},
		"by a daemon":         {"/dev/null", "", "", daemon, "usually"},
		"by another path":     {other, "", "", daemon, "usually"},
		"after it was closed": {"/dev/zero", "/dev/null", "", daemon, "usually"},
		"of another GPU":      {"/dev/zero", "/dev/full", "", []string{usual}, "812"},
		"by a display, maybe": {"/dev/zero", "", "nvidia_drm 1 0 - Live 0x0\nnvidia_modeset 1 1 nvidia_drm, Live 0x0\nnvidia 1 2 - Live 0x0\n", []string{usual, "or a display uses it through nvidia_drm and nvidia_modeset"}, "812"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=a30")
			proc := t.TempDir()
			for file, text := range map[string]string{
				"driver/nvidia/gpus/" + r.gpus()[0].PCI.BusID + "/information": "Device Minor: \t 3\n", "modules": c.modules,
				"devices":  "Character devices:\n  1 nvidia\n",
				"812/comm": "nvidia-persiste\n", "812/cgroup": "0::/system.slice/nvidia-persistenced.service\n",
				"812/maps": "00500000-00501000 rw-s 00000000 00:05 5    /dev/nvidia0\n",
				"813/comm": "this process\n",
			} {
				path := filepath.Join(proc, file)
				assert.NilError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
			}
			for link, target := range map[string]string{
				"812/fd/0": "/dev/zero", "812/fd/7": c.open, "812/map_files/500000-501000": c.mapped, "813/fd/7": "/dev/null", "self": "813",
			} {
				link = filepath.Join(proc, link)
				assert.NilError(t, os.MkdirAll(filepath.Dir(link), 0o755))
				if err := os.Symlink(target, link); err != nil && target != "" {
					t.Fatal(err)
				}
			}
			a, err := apply.New(apply.Config{
				Session: r.session, StateDir: filepath.Join(r.dir, "state"), Patience: 1, Processes: apply.Processes{Root: procowner.Root{Proc: proc}},
				Reset: resetFunc(func() error { return apply.ErrBusy }),
			})
			assert.NilError(t, err)
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
