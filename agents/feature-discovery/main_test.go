package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

func TestLateDriver(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]string{
		"on a new node":                     "",
		"where an earlier process has been": "nvidia.com/gpu.product=as-it-was\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2", "--model=h100-80", "--driver=off")
			file := filepath.Join(t.TempDir(), "gfd")
			if earlier != "" {
				write(t, file, earlier)
			}
			p := startWith(t, n, file)
			p.Said("the driver does not answer, waiting", "no NVIDIA driver")
			p.unready("no NVIDIA driver")
			if got, there := content(t, file); got != earlier || there != (earlier != "") {
				t.Errorf("without a driver the file (there: %t) is %q, want %q", there, got, earlier)
			}
			if p.hasMetric("labels ") {
				t.Error("/metrics counts labels that nobody knows")
			}
			n.Run("set", "driver=on")
			p.has(simulated(t, n))
			p.Said("the driver answers", "gpus=2")
			p.ready()
		})
	}
}

func TestGPUsComeAndGo(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=0")
	p := start(t, n)
	p.ready()
	p.metric("labels 0\n")
	if got, _ := content(t, p.file); got != "" {
		t.Errorf("a node without GPUs has the labels %s", got)
	}
	n.Run("plug", "--model=l4")
	p.has(simulated(t, n))
	n.Run("plug", "--model=l4")
	p.has(map[string]string{"gpu.count": "2"})
	n.Run("unplug", "1")
	p.has(map[string]string{"gpu.count": "1"})
	n.Run("unplug", "0")
	p.shows("no label", func(labels map[string]string) bool { return len(labels) == 0 })
	if _, there := content(t, p.file); !there {
		t.Error("the file itself is gone, want one without labels")
	}
	p.metric("labels 0\n")
	p.ready()
	if strings.Contains(p.Log.String(), "the driver does not answer") {
		t.Error("the log has it that the driver does not answer, and it always did")
	}
}

func TestMIGLayout(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	p := start(t, n, "--mig-strategy", "mixed")
	whole := simulated(t, n)
	whole["mig.strategy"], whole["mig.capable"] = "mixed", "true"
	p.has(whole)

	n.Run("mig mode", "0", "on")
	n.Run("mig create", "0", "3g.40gb", "1g.10gb", "1g.10gb")
	divided := maps.Clone(whole)
	divided["mig-3g.40gb.count"], divided["mig-1g.10gb.count"] = "1", "2"
	divided["mig-3g.40gb.product"] = whole["gpu.product"] + "-MIG-3g.40gb"
	divided["mig-1g.10gb.replicas"] = "1"
	p.has(divided)

	n.Run("mig destroy", "0", "all")
	n.Run("mig create", "0", "7g.80gb")
	p.has(map[string]string{"mig-7g.80gb.count": "1"})
	for name := range p.labels() {
		if strings.HasPrefix(name, "mig-3g.40gb.") || strings.HasPrefix(name, "mig-1g.10gb.") {
			t.Errorf("label %s describes a MIG device that is gone", name)
		}
	}
	n.Run("mig destroy", "0", "all")
	n.Run("mig mode", "0", "off")
	p.shows("no label of a MIG device", func(labels map[string]string) bool {
		for name := range labels {
			if strings.HasPrefix(name, "mig-") {
				return false
			}
		}
		return labels["gpu.count"] == "2"
	})
}

// What an agent that ends has published stays, and the next one writes nothing.
func TestRestart(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=4", "--model=a30")
	p := start(t, n)
	p.has(simulated(t, n))
	p.ready()
	p.Stop()
	before := stat(t, p.file)
	text, _ := content(t, p.file)
	next := startWith(t, n, p.file)
	next.ready()
	next.metric("labels ")
	next.Hangup(1)
	next.Stop()
	after := stat(t, p.file)
	if now, _ := content(t, p.file); now != text || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the file was written again: %q at %s, want %q at %s", now, after.ModTime(), text, before.ModTime())
	}
	entries, err := os.ReadDir(filepath.Dir(p.file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want the file alone", entries, err)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	assert.NilError(t, err)
	return fi
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	p := start(t, n, "--ready-chain", "driver")
	p.has(simulated(t, n))
	p.ready()
	if status, body := p.Ask("/healthz"); status != 200 || body != "nvml: ok\nok\n" {
		t.Errorf("/healthz says %d %q", status, body)
	}
	p.metric(`gpu_ready{reason="GPUsReady"} 1` + "\n")
	p.metric("labels ")
	if status, _ := p.Ask("/nothing"); status != 404 {
		t.Errorf("/nothing says %d", status)
	}
}

func TestSIGHUP(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	machine := filepath.Join(t.TempDir(), "product_name")
	write(t, machine, "First Machine\n")
	p := start(t, n, "--machine-type-file", machine)
	p.has(map[string]string{"gpu.machine": "First-Machine"})
	// No event reports changes of this file.
	write(t, machine, "Second Machine\n")
	p.Hangup(1)
	p.has(map[string]string{"gpu.machine": "Second-Machine"})
}

func TestStdout(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	out := agenttest.NewLines()
	cmd := agenttest.Command(t, n, "--publish", "stdout", "--listen", "", "--run-root", t.TempDir())
	cmd.Stdout = out
	p := agenttest.Start(t, cmd)
	for i, count := range []string{"1", "2"} {
		if i > 0 {
			n.Run("plug", "--model=l4")
		}
		assert.NilError(t, out.Wait(agenttest.Deadline(t), "nvidia.com/gpu.count="+count))
	}
	p.Hangup(1)
	p.Stop()
	if got := strings.Count(out.String(), "nvidia.com/gpu.count="); got != 2 {
		t.Errorf("labels were printed %d times, want once for each change:\n%s", got, out)
	}
}

func TestOneshot(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h200")
	cmd := agenttest.Command(t, n, "--oneshot", "--publish", "stdout", "--run-root", t.TempDir())
	out, err := cmd.Output()
	assert.NilError(t, err)
	for name, value := range simulated(t, n) {
		if line := "nvidia.com/" + name + "=" + value + "\n"; !strings.Contains(string(out), line) {
			t.Errorf("want %q in:\n%s", line, out)
		}
	}
}

// A snapshot that was taken elsewhere has all that labels are made of.
func TestOneshotOfSnapshot(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=3", "--model=b200")
	snapshot, err := agenttest.Command(t, n, "snapshot").Output()
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "snapshot.json")
	write(t, path, string(snapshot))
	labels := func(source string) string {
		out, err := agenttest.Command(t, n, "--oneshot", "--publish", "stdout", "--no-timestamp", "--gpu-source", source, "--run-root", t.TempDir()).Output()
		assert.NilError(t, err)
		return string(out)
	}
	want, got := labels("nvml"), labels("file:"+path)
	if got != want || !strings.Contains(got, "nvidia.com/gpu.count=3\n") {
		t.Errorf("of the snapshot the labels are\n%s, want\n%s", got, want)
	}
}

func TestOneshotWithoutDriver(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--driver=off")
	file := filepath.Join(t.TempDir(), "gfd")
	write(t, file, "nvidia.com/gpu.product=as-it-was\n")
	for name, publish := range map[string][]string{
		"stdout":   {"--publish", "stdout"},
		"nfd-file": {"--publish", "nfd-file", "--output-file", file},
	} {
		t.Run(name, func(t *testing.T) {
			out := agenttest.NewLines()
			cmd := agenttest.Command(t, n, append(publish, "--oneshot", "--log-level", "error", "--run-root", t.TempDir())...)
			cmd.Stdout = out
			agenttest.Fails(t, cmd, 1, "level=ERROR", "read the GPUs of the node", "no NVIDIA driver", "modprobe nvidia")
			if out.String() != "" {
				t.Errorf("without a driver it printed %q", out)
			}
		})
	}
	if got, _ := content(t, file); got != "nvidia.com/gpu.product=as-it-was\n" {
		t.Errorf("the file of an earlier process is %q now", got)
	}
}

func TestFailOnInitError(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--driver=off")
	cmd := agenttest.Command(t, n, "--fail-on-init-error", "--publish", "stdout", "--listen", "", "--run-root", t.TempDir())
	agenttest.Fails(t, cmd, 1, "level=ERROR", "no NVIDIA driver", "fail-on-init-error is set")
}
