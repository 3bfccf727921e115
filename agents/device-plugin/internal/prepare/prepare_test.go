package prepare_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/gputest"
)

func root(t *testing.T, host, ctr, devRoot string) *driverroot.Root {
	t.Helper()
	r, err := driverroot.New(driverroot.Config{HostPath: host, CtrPath: ctr, DevRoot: devRoot})
	assert.NilError(t, err)
	return r
}

func run(t *testing.T, cfg prepare.Config, c config.Config) (inventory.Prepared, error) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	return prepare.New(cfg).Scan(c)(gputest.Node(gputest.A100, 2))
}

func TestDeviceNodes(t *testing.T) {
	const host = "/run/nvidia/driver"
	for name, tc := range map[string]struct {
		files   []string
		devRoot string
		lists   []config.ListStrategy
		specs   bool
		want    inventory.Prepared
	}{
		"only those that exist, in the driver root": {
			files: []string{"dev/nvidiactl", "dev/nvidia-uvm"}, specs: true,
			want: inventory.Prepared{DevRoot: host, ControlNodes: []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}},
		},
		"in the device root that is set": {
			files: []string{"nodes/dev/nvidiactl", "nodes/dev/nvidia-modeset"}, devRoot: host + "/nodes", specs: true,
			want: inventory.Prepared{DevRoot: host + "/nodes", ControlNodes: []string{"/dev/nvidiactl", "/dev/nvidia-modeset"}},
		},
		"none unless they are passed": {files: []string{"dev/nvidiactl"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctr := t.TempDir()
			for _, f := range tc.files {
				makeNode(t, filepath.Join(ctr, f))
			}
			got, err := run(t, prepare.Config{Root: root(t, host, ctr, tc.devRoot)},
				config.Config{ListStrategies: []config.ListStrategy{config.ListEnvvar}, PassDeviceSpecs: tc.specs})
			assert.NilError(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("prepared (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpecOfAnEmptyDriverRoot(t *testing.T) {
	cdi := t.TempDir()
	_, err := run(t, prepare.Config{Root: root(t, "/run/nvidia/driver", t.TempDir(), "")},
		config.Config{ListStrategies: []config.ListStrategy{config.ListCDICRI}, CDIRoot: cdi})
	var missing *driverroot.MissingError
	if !errors.As(err, &missing) || missing.Root != "/run/nvidia/driver" {
		t.Errorf("error is %v, want what the driver root lacks", err)
	}
	if entries, err := os.ReadDir(cdi); err != nil || len(entries) > 0 {
		t.Errorf("the folder of specs has %v, %v", entries, err)
	}
}

func TestHookThatIsMissing(t *testing.T) {
	_, err := run(t, prepare.Config{Root: root(t, "/", t.TempDir(), "")}, config.Config{
		ListStrategies: []config.ListStrategy{config.ListCDICRI}, CDIRoot: t.TempDir(), HookPath: "/usr/bin/nvidia-cdi-hook",
	})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "leave nvidia-cdi-hook-path empty") {
		t.Errorf("error is %v, want that the hook is missing", err)
	}
}
