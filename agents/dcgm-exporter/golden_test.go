package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// What each kind of GPU serves, in each of its states: the names and labels of all metrics, without
// those that say which GPU of which node it is.
func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	for _, model := range simtest.Models(t) {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			served(t, start(t, simtest.New(t, "--gpus=1", "--model="+model)), model)
		})
	}
	for model, profiles := range map[string][]string{"a30": {"2g.12gb", "1g.6gb"}, "h100-80": {"3g.40gb", "1g.10gb", "1g.10gb"}} {
		t.Run(model+" in MIG mode", func(t *testing.T) {
			t.Parallel()
			n := simtest.New(t, "--gpus=1", "--model="+model)
			n.Run("mig mode", "0", "on")
			n.Run("reset", "0")
			n.Run(append([]string{"mig create", "0"}, profiles...)...)
			served(t, start(t, n), model+"-mig")
			served(t, start(t, n, "--mig-gpu-metrics=dedupe"), model+"-mig-dedupe")
		})
	}
	t.Run("a shared GPU", func(t *testing.T) {
		t.Parallel()
		n := simtest.New(t, "--gpus=1", "--model=l4")
		socket := filepath.Join(t.TempDir(), "kubelet.sock")
		k := podresourcestest.Start(t, socket)
		id := uuids(t, n)[0]
		runs(k, map[string]string{"train": id + "::0", "serve": id + "::1"})
		served(t, start(t, n, "--kubernetes", "--pod-resources-kubelet-socket="+socket), "shared")
		served(t, start(t, n, "--kubernetes", "--kubernetes-virtual-gpus", "--pod-resources-kubelet-socket="+socket), "shared-virtual")
	})
}

// The rows of all public lists, with the names of each set: help, type and value.
func TestPublicListsAreServed(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	n.Run("set", "0.utilization-gpu=73", "0.utilization-encoder=21", "0.utilization-decoder=12", "0.memory-temperature=81", "0.power=512500", "0.clock-limits=display")
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, publicRows(t), 0o600))
	identity := regexp.MustCompile(`\b(gpu|UUID|pci_bus_id|device|modelName|Hostname)="[^"]*",?`)
	// Each metric has the labels of the list. The golden file has their names once, with the temperature.
	text := regexp.MustCompile(`(DCGM_\w+)="[^"]*"(,?)`)
	once := regexp.MustCompile(`^DCGM_FI_DEV_GPU_TEMP(_CELSIUS)?\{`)
	moving := regexp.MustCompile(`(?i)energy|clock_events_count`)
	for _, names := range []string{"legacy", "dcgm47"} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			settled(t, start(t, n, "--collectors="+file, "--metric-names="+names), "lists-"+names, func(line string) (string, bool) {
				name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
				switch {
				case !strings.HasPrefix(strings.ToUpper(name), "DCGM_") && !strings.HasPrefix(name, "exporter_field_unavailable{"):
					return "", false
				case name != line: // a help or a type
					return line, true
				case !strings.Contains(line, `{gpu="0"`):
					return "", false
				case moving.MatchString(line):
					line = line[:strings.LastIndex(line, " ")] + "\n"
				case once.MatchString(line):
					return identity.ReplaceAllString(text.ReplaceAllString(line, "$1$2"), ""), true
				}
				return identity.ReplaceAllString(text.ReplaceAllString(line, ""), ""), true
			})
		})
	}
}

// publicRows returns the rows of the public lists that are served, as a list.
func publicRows(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("internal/counters/testdata/public-lists.tsv")
	assert.NilError(t, err)
	var out bytes.Buffer
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if !strings.HasPrefix(line, "#") && cells[0] != "name" && len(cells) == 3 {
			fmt.Fprintf(&out, "%s, %s, from %s\n", cells[0], cells[1], strings.ReplaceAll(cells[2], ",", " and "))
		}
	}
	return out.Bytes()
}

// served compares the names and labels of what an exporter serves with a golden file.
func served(t *testing.T, p *process, name string) {
	t.Helper()
	identity := regexp.MustCompile(`(gpu|UUID|pci_bus_id|device|Hostname)="[^"]*",?`)
	settled(t, p, name, func(line string) (string, bool) {
		if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "gpu_") && !strings.HasPrefix(line, "exporter_") || strings.HasPrefix(line, "gpu_xid_errors_total") {
			return "", false
		}
		return identity.ReplaceAllString(line[:strings.LastIndex(line, " ")], "") + "\n", true
	})
}

// settled compares lines of what an exporter serves with a golden file, once they do not change any
// more: some metrics need two readings. line returns the text for a line, and whether it counts.
func settled(t *testing.T, p *process, name string, line func(string) (string, bool)) {
	t.Helper()
	var last, now string
	changed := time.Now()
	agenttest.Poll(t, "metrics that do not change", func() bool {
		var lines []string
		up := false
		for l := range strings.Lines(p.Get("/metrics")) {
			up = up || strings.HasPrefix(l, "gpu_up")
			if text, ok := line(l); ok {
				lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(text, ",}", "}"), "{}", ""))
			}
		}
		slices.Sort(lines)
		last, now = now, strings.Join(lines, "")
		if now != last {
			changed = time.Now()
		}
		return up && time.Since(changed) > 5*interval
	})
	golden.Assert(t, now, name+".golden")
}
