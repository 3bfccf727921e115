package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// uuids returns the UUIDs of the GPUs of a node.
func uuids(t *testing.T, n *simtest.Node) []string {
	t.Helper()
	var shown struct {
		GPUs []struct {
			UUID string `json:"uuid"`
		} `json:"gpus"`
	}
	assert.NilError(t, json.Unmarshal(n.Run("show", "--json"), &shown))
	out := make([]string, len(shown.GPUs))
	for i, g := range shown.GPUs {
		out[i] = g.UUID
	}
	return out
}

func TestMetricsFollowTheGPU(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	p := start(t, n)
	ids := uuids(t, n)
	p.has("1", "gpu_up", `gpu="0"`, `UUID="`+ids[0]+`"`, `pci_bus_id="0000`, `device="nvidia0"`, `modelName="NVIDIA H100 80GB HBM3"`, `Hostname="node1"`)
	p.has("1", "gpu_up", `gpu="1"`)
	n.Run("set", "0.temperature=77", "0.power=512500", "0.memory-temperature=81", "0.pcie-replays=7", "1.utilization-gpu=93", "1.utilization-decoder=12")
	p.has("77", "DCGM_FI_DEV_GPU_TEMP", `gpu="0"`, `DCGM_FI_DRIVER_VERSION="580.95.05"`)
	p.has("512.5", "DCGM_FI_DEV_POWER_USAGE", `gpu="0"`)
	p.has("81", "DCGM_FI_DEV_MEMORY_TEMP", `gpu="0"`)
	p.has("7", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", `gpu="0"`)
	p.has("93", "DCGM_FI_DEV_GPU_UTIL", `gpu="1"`)
	p.has("12", "DCGM_FI_DEV_DEC_UTIL", `gpu="1"`)
	p.has("0", "DCGM_FI_DEV_XID_ERRORS", `gpu="0"`)
	n.Run("xid", "0", "31")
	p.has("31", "DCGM_FI_DEV_XID_ERRORS", `gpu="0"`, `err_code="31"`, `err_msg="GPU memory page fault"`)
	p.has("1", "gpu_xid_errors_total", `gpu="0"`, `xid="31"`, `class="application"`)
	p.has("0", "gpu_xid_errors_total", `gpu="1"`, `xid="31"`)
	if status, body := p.Ask("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := p.Ask("/health"); status != 200 || !strings.HasPrefix(body, "OK") {
		t.Errorf("/health: %d %s", status, body)
	}
}

// What the exporter derives is served if the list asks for it.
func TestHealthAndPeers(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, []byte("DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\nDCGM_EXP_P2P_STATUS, gauge, p\n"), 0o600))
	p := start(t, n, "--collectors="+file)
	for _, watch := range []string{"DRIVER", "MEM", "POWER", "THERMAL"} {
		p.has("0", "DCGM_EXP_GPU_HEALTH_STATUS", `gpu="0"`, `health_watch="`+watch+`"`, `health_error_code="DCGM_FR_OK"`)
	}
	p.has("0", "DCGM_EXP_P2P_STATUS", `gpu="0"`, `peer_gpu="1"`, `link_status="OK"`)
	n.Run("set", "0.remap-pending=1", "0.recovery=drain-and-reset")
	p.has("20", "DCGM_EXP_GPU_HEALTH_STATUS", `gpu="0"`, `health_watch="MEM"`, `health_error_code="DCGM_FR_PENDING_ROW_REMAP"`)
	p.has("20", "DCGM_EXP_GPU_HEALTH_STATUS", `gpu="0"`, `health_watch="DRIVER"`, `health_error_code="DCGM_FR_GPU_RECOVERY_DRAIN_RESET"`)
	n.Run("xid", "0", "79")
	n.Run("lose", "0")
	p.has("20", "DCGM_EXP_GPU_HEALTH_STATUS", `gpu="0"`, `health_watch="DRIVER"`, `health_error_code="DCGM_FR_FALLEN_OFF_BUS"`)
	p.lacks("DCGM_EXP_GPU_HEALTH_STATUS", `gpu="0"`, `health_watch="MEM"`)
	p.has("0", "DCGM_EXP_GPU_HEALTH_STATUS", `gpu="1"`, `health_watch="DRIVER"`)
}

// Labels with an index name the same GPU after NVML's list has changed.
func TestLabelsNameTheSameGPUAfterAShift(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=3", "--model=h100-80")
	file := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(file, []byte("DCGM_EXP_P2P_STATUS, gauge, p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, n, "--collectors="+file)
	p.has("0", "DCGM_EXP_P2P_STATUS", `gpu="1",UUID`, `peer_gpu="2"`)
	n.Run("unplug", "0")
	p.lacks("gpu_up", `gpu="0"`)
	for gpu, peer := range map[string]string{"1": "2", "2": "1"} {
		p.has("0", "DCGM_EXP_P2P_STATUS", `gpu="`+gpu+`",UUID`, `peer_gpu="`+peer+`"`)
	}
	if found := p.series("DCGM_EXP_P2P_STATUS"); len(found) != 2 {
		t.Errorf("the GPUs have other peers: %v", found)
	}
}

func TestGPUsAndDriverComeAndGo(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4", "--driver=off")
	p := start(t, n)
	agenttest.Poll(t, "what is missing", func() bool { status, _ := p.Ask("/readyz"); return status == 503 })
	n.Run("set", "driver=on")
	p.has("1", "gpu_up", `gpu="0"`)
	n.Run("plug", "--model=l4")
	p.has("1", "gpu_up", `gpu="1"`)
	n.Run("unplug", "1")
	p.lacks("gpu_up", `gpu="1"`)
	n.Run("set", "driver=off")
	p.has("0", "gpu_up", `gpu="0"`) // it worked, and its node has no driver now
	p.lacks("DCGM_FI_DEV_GPU_TEMP")
	n.Run("set", "driver=on")
	p.has("1", "gpu_up", `gpu="0"`)
}

func TestGPUInstances(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=h100-80")
	p := start(t, n)
	p.has("1", "gpu_up", `gpu="0"`)
	n.Run("mig mode", "0", "on")
	n.Run("mig create", "0", "3g.40gb", "1g.10gb")
	agenttest.Poll(t, "metrics of both GPU instances", func() bool {
		return len(p.series("DCGM_FI_DEV_FB_USED", `GPU_I_PROFILE="3g.40gb"`)) == 1 && len(p.series("DCGM_FI_DEV_FB_USED", `GPU_I_PROFILE="1g.10gb"`)) == 1
	})
	// A value of the whole GPU is served with both, as by NVIDIA's exporter.
	agenttest.Poll(t, "the temperature with both", func() bool { return len(p.series("DCGM_FI_DEV_GPU_TEMP")) == 2 })
	p.lacks("DCGM_FI_DEV_GPU_UTIL") // NVML does not have it in MIG mode
	n.Run("xid", "--instance=2", "0", "31")
	p.has("1", "gpu_instance_xid_errors_total", `gpu="0"`, `GPU_I_PROFILE="3g.40gb"`, `GPU_I_ID="2"`, `xid="31"`, `class="application"`)
	p.has("1", "gpu_xid_errors_total", `gpu="0"`, `xid="31"`)
	n.Run("mig destroy", "0")
	n.Run("mig mode", "0", "off")
	agenttest.Poll(t, "metrics of the GPU", func() bool {
		got := p.series("DCGM_FI_DEV_GPU_UTIL", `gpu="0"`)
		return len(got) == 1 && len(p.series("DCGM_FI_DEV_FB_USED", "GPU_I_ID")) == 0
	})
}

func TestPods(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	ids := uuids(t, n)
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := podresourcestest.Start(t, socket)
	runs(k, nil)
	p := start(t, n, "--kubernetes", "--pod-resources-kubelet-socket="+socket)
	agenttest.Poll(t, "an answer of the kubelet", func() bool { return p.Gauge("exporter_pod_mapping_up") == 1 })
	runs(k, map[string]string{"train": ids[0], "serve-a": ids[1] + "::0", "serve-b": ids[1] + "::1"})
	p.has("30", "DCGM_FI_DEV_GPU_TEMP", `gpu="0"`, `container="main"`, `namespace="ml"`, `pod="train"`)
	p.lacks("DCGM_FI_DEV_GPU_TEMP", `gpu="1"`, `pod=`) // it is not that of one pod
	for _, pod := range []string{"train", "serve-a", "serve-b"} {
		agenttest.Poll(t, "the time of "+pod, func() bool { return len(p.series("gpu_pod_allocated_seconds_total", `pod="`+pod+`"`)) == 1 })
	}
	p.lacks("gpu_pod_idle_seconds_total", `pod="serve-a"`) // nothing is known of its processes
	agenttest.Poll(t, "idle seconds of train", func() bool {
		for _, v := range p.series("gpu_pod_idle_seconds_total", `pod="train"`) {
			return v != "0"
		}
		return false
	})
	runs(k, nil)
	p.lacks("DCGM_FI_DEV_GPU_TEMP", `pod="train"`)
	p.has("30", "DCGM_FI_DEV_GPU_TEMP", `gpu="0"`)
}

// Without the kubelet there are metrics without pods, and the reason is said.
func TestAKubeletThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	p := start(t, n, "--kubernetes", "--pod-resources-kubelet-socket="+filepath.Join(t.TempDir(), "none.sock"))
	p.has("1", "gpu_up", `gpu="0"`)
	p.Said("cannot ask the kubelet which pods use the gpus", "none.sock")
	agenttest.Poll(t, "an error", func() bool { return p.series("exporter_pod_mapping_errors_total")[`class="missing"`] != "0" })
	if p.Gauge("exporter_pod_mapping_up") != 0 {
		t.Error("exporter_pod_mapping_up is 1")
	}
}

func TestTheListOfMetricsIsReadAgain(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	file := filepath.Join(t.TempDir(), "list.csv")
	write := func(text string) {
		t.Helper()
		assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_NONE, gauge, n\n")
	p := start(t, n, "--collectors="+file)
	p.Said("cannot serve a metric of the list", "line=2", "DCGM_FI_NONE is not a field of DCGM")
	agenttest.Poll(t, "the temperature", func() bool { return len(p.series("DCGM_FI_DEV_GPU_TEMP")) == 1 })
	p.lacks("DCGM_FI_DEV_POWER_USAGE")
	write("DCGM_FI_DEV_POWER_USAGE, gauge, p\n")
	agenttest.Poll(t, "the power", func() bool { return len(p.series("DCGM_FI_DEV_POWER_USAGE")) == 1 })
	p.lacks("DCGM_FI_DEV_GPU_TEMP")
	write("half a li")
	p.Said("new list of metrics rejected, keeping the previous one", file)
	if len(p.series("DCGM_FI_DEV_POWER_USAGE")) != 1 {
		t.Error("the power is gone")
	}
}

// A driver that hangs holds up no scrape, and not for long the end of the process.
func TestADriverThatHangsHoldsUpNoScrape(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	p := start(t, n)
	p.has("1", "gpu_up", `gpu="0"`)
	n.Run("set", "latency=1h")
	p.has("0", "gpu_up", `gpu="0"`)
	began := time.Now()
	p.Get("/metrics")
	if took := time.Since(began); took > time.Second {
		t.Errorf("a scrape took %s", took)
	}
	p.lacks("DCGM_FI_DEV_GPU_TEMP")
	p.Dies("has not answered")
}

// An error that only the kernel's log has is that of its GPU.
func TestErrorsOfTheKernelsLog(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	path := filepath.Join(t.TempDir(), "kmsg")
	assert.NilError(t, syscall.Mkfifo(path, 0o600))
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	p := start(t, n, "--kernel-log="+path)
	var bus string
	agenttest.Poll(t, "the GPU", func() bool {
		for labels := range p.series("gpu_up", `gpu="1"`) {
			_, rest, _ := strings.Cut(labels, `pci_bus_id="0000`)
			bus, _, _ = strings.Cut(rest, `.0"`)
		}
		return bus != ""
	})
	if _, err := log.WriteString("4,1,1,-;NVRM: Xid (PCI:" + bus + "): 119, pid=1, Timeout after 6s\n"); err != nil {
		t.Fatal(err)
	}
	p.has("1", "gpu_xid_errors_total", `gpu="1"`, `xid="119"`)
	p.has("119", "DCGM_FI_DEV_XID_ERRORS", `gpu="1"`)
	p.has("0", "gpu_xid_errors_total", `gpu="0"`, `xid="119"`)
}

// The exporter lets go of NVML for an agent that has claimed it, and goes on afterwards.
func TestLetsGoOfTheDriver(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=a100-40")
	p := start(t, n)
	p.has("1", "gpu_up", `gpu="0"`)
	lease := contract.Dir{Root: p.run, ProcRoot: "/proc"}.NVML()
	grant, err := lease.Claim(t.Context(), "test", "to look", time.Minute)
	assert.NilError(t, err)
	p.lacks("DCGM_FI_DEV_GPU_TEMP")
	assert.NilError(t, grant.Release())
	agenttest.Poll(t, "metrics again", func() bool { return len(p.series("DCGM_FI_DEV_GPU_TEMP")) == 1 })
}

func TestTwoHundredScrapesAtOnce(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=8", "--model=h100-80")
	p := start(t, n)
	agenttest.Poll(t, "all GPUs", func() bool { return strings.Contains(p.Get("/metrics"), `gpu_up{gpu="7"`) })
	var g sync.WaitGroup
	for range 200 {
		g.Go(func() {
			status, body := p.Ask("/metrics")
			if !strings.Contains(body, `DCGM_FI_DEV_GPU_TEMP{gpu="7"`) {
				t.Errorf("a scrape got %d %.200s", status, body)
			}
		})
	}
	g.Wait()
}
