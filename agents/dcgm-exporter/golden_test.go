package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// What each kind of GPU serves, in each of its states: the names and labels of all metrics, without
// those that say which GPU of which node it is.
func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"a100-40", "a100-80", "a30", "h100-80", "h200", "b200", "l4"} {
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

// served compares what an exporter serves with a golden file, once it does not change any more: some
// metrics need two readings.
func served(t *testing.T, p *process, name string) {
	t.Helper()
	identity := regexp.MustCompile(`(gpu|UUID|pci_bus_id|device|Hostname)="[^"]*",?`)
	var last, now string
	changed := time.Now()
	agenttest.Poll(t, "metrics that do not change", func() bool {
		var lines []string
		for line := range strings.Lines(p.Get("/metrics")) {
			if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "gpu_") && !strings.HasPrefix(line, "exporter_") || strings.HasPrefix(line, "gpu_xid_errors_total") {
				continue
			}
			line = identity.ReplaceAllString(line[:strings.LastIndex(line, " ")], "")
			lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(line, ",}", "}"), "{}", ""))
		}
		slices.Sort(lines)
		last, now = now, strings.Join(lines, "\n")+"\n"
		if now != last {
			changed = time.Now()
		}
		return strings.Contains(now, "gpu_up") && time.Since(changed) > 5*interval
	})
	golden.Assert(t, now, name+".golden")
}
