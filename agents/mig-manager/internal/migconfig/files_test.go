package migconfig_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
)

// h100 returns GPUs with the board of an H100.
func h100(t *testing.T, count int) []mig.GPU {
	t.Helper()
	known, ok := boards.Named("h100-80")
	if !ok {
		t.Fatal("an H100 is not known")
	}
	var out []mig.GPU
	for i := range count {
		out = append(out, mig.GPU{
			Index: i, UUID: gpu.UUID(fmt.Sprintf("GPU-%d", i)), Name: "H100", PCI: gpu.PCI{DeviceID: known.DeviceIDs[0]}, Capable: true, Board: known.Board,
		})
	}
	return out
}

// TestABrokenFileFailsItsOwnConfigsOnly: generated ones, and those of the other file, can be asked for.
func TestABrokenFileFailsItsOwnConfigsOnly(t *testing.T) {
	const valid = "version: v1\nmig-configs:\n  team: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	broken := strings.Replace(valid, "mig-enabled: true", "mig-enabled: perhaps", 1)
	for name, tc := range map[string]struct {
		user, base, asks string
		// want are words of the error, none for no error.
		want []string
	}{
		"of the file":                     {user: broken, asks: "team", want: []string{"user.yaml:3", "mig-enabled", "true or false"}},
		"generated":                       {user: broken, asks: "all-balanced"},
		"of the other file":               {user: broken, base: strings.ReplaceAll(valid, "team", "other"), asks: "other"},
		"of neither":                      {user: broken, asks: "nonsense", want: []string{"does not exist", "all-balanced", "user.yaml:3"}},
		"generated, and replaced":         {user: strings.ReplaceAll(broken, "team", "all-balanced"), asks: "all-balanced", want: []string{"user.yaml:3"}},
		"replaced in a file of one line":  {user: `{version: v1, mig-configs: {"all-balanced": [}`, asks: "all-balanced", want: []string{"user.yaml"}},
		"replaced in a file of no syntax": {user: "version: v1\nmig-configs:\n\tall-balanced:\n", asks: "all-balanced", want: []string{"user.yaml:3"}},
		"a file of no syntax":             {user: "version: v1\nmig-configs:\n\tteam:\n", asks: "all-balanced"},
		"a longer name":                   {user: strings.ReplaceAll(broken, "team", "not-all-balanced"), asks: "all-balanced"},
		"of the base":                     {base: broken, asks: "team", want: []string{"base.yaml:3"}},
		"generated, and in the base":      {base: strings.ReplaceAll(broken, "team", "all-balanced"), asks: "all-balanced"},
	} {
		t.Run(name, func(t *testing.T) {
			paths := map[string]string{}
			for file, text := range map[string]string{"user": tc.user, "base": tc.base} {
				if text == "" {
					continue
				}
				paths[file] = filepath.Join(t.TempDir(), file+".yaml")
				assert.NilError(t, os.WriteFile(paths[file], []byte(text), 0o600))
			}
			var log bytes.Buffer
			f := migconfig.NewFiles(paths["base"], paths["user"], slog.New(slog.NewTextHandler(&log, nil)))
			got, err := f.Select(tc.asks, h100(t, 1))
			if (err == nil) != (len(tc.want) == 0) || (got == nil) != (err != nil) {
				t.Fatalf("Select() = %v, %v, want an error with %q", got, err, tc.want)
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error %q lacks %q", err, word)
				}
			}
			_, _ = f.Select(tc.asks, h100(t, 1))
			if n := strings.Count(log.String(), "config file rejected"); n != 1 {
				t.Errorf("%d lines of log, want one:\n%s", n, &log)
			}
		})
	}
}

// TestAFileThatGoesFailsItsConfigs: what it replaced must not be applied instead.
func TestAFileThatGoesFailsItsConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "version: v1\nmig-configs:\n  all-balanced: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	assert.NilError(t, hostfs.WriteFile(file, []byte(text), 0o600))
	f := migconfig.NewFiles("", file, slog.New(slog.DiscardHandler))
	if _, err := f.Select("all-balanced", h100(t, 1)); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, os.Remove(file))
	if _, err := f.Select("all-balanced", h100(t, 1)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Select() = %v, want an error about %s", err, file)
	}
	if _, err := f.Select("all-disabled", h100(t, 1)); err != nil {
		t.Errorf("a generated config fails: %v", err)
	}
}

func TestFilesMergeGeneratedConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "version: v1\nmig-configs:\n" +
		"  team: [{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n" +
		"  all-balanced: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
	f, gpus := migconfig.NewFiles("", file, slog.New(slog.DiscardHandler)), h100(t, 2)
	for name, want := range map[string]map[gpu.UUID]mig.Desired{
		"team":         {"GPU-1": {Enabled: true, Devices: map[gpu.Profile]int{must[gpu.Profile](t)(gpu.ParseProfile("3g.40gb")): 2}}},
		"all-disabled": {"GPU-0": {}, "GPU-1": {}},
		"all-balanced": {
			"GPU-0": {Enabled: true, Devices: map[gpu.Profile]int{must[gpu.Profile](t)(gpu.ParseProfile("7g.80gb")): 1}},
			"GPU-1": {Enabled: true, Devices: map[gpu.Profile]int{must[gpu.Profile](t)(gpu.ParseProfile("7g.80gb")): 1}},
		},
	} {
		got, err := f.Select(name, gpus)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	_, err := f.Select("nonsense", gpus)
	assert.ErrorContains(t, err, "all-balanced, team, all-1g.10gb,")
	gpus[1].Fault = &gpu.Fault{Op: "nvmlDeviceGetMigMode", Reason: "GPU is lost"}
	got, err := f.Select("all-disabled", gpus)
	if err == nil || len(got) != 1 {
		t.Errorf("Select() = %v, %v, want what the other GPU shall have, and why one lacks", got, err)
	}
}
