package app_test

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// smiNode returns a node with GPUs of a model, and a function that runs nvidia-smi there.
func smiNode(t *testing.T, args ...string) (sim, func(args ...string) string) {
	t.Helper()
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", args...)
	return s, func(args ...string) string {
		t.Helper()
		return s.must("exec", append([]string{"--", "nvidia-smi"}, args...)...)
	}
}

// The forms are those of published output: titles have the canonical name and the unit, values the
// unit, and N/A is in brackets.
func TestNvidiaSMIQueriesFields(t *testing.T) {
	s, smi := smiNode(t, "--gpus", "2", "--model", "l4")
	s.must("set", "0.temperature=61", "0.power=33510", "0.utilization-gpu=73", "1.clock-sm=1800", "1.ecc-volatile-dram-uncorrected=2")
	s.must("proc", "add", "--memory", "1024", "0")
	gpus := s.show().GPUs
	for args, want := range map[string]string{
		"--query-gpu=index,gpu_name,gpu_uuid --format=csv": fmt.Sprintf("index, name, uuid\n0, NVIDIA L4, %s\n1, NVIDIA L4, %s\n", gpus[0].UUID, gpus[1].UUID),
		"--query-gpu=memory.total,memory.used,memory.free,utilization.gpu,utilization.memory,temperature.gpu,power.draw.instant,power.limit --format=csv -i 0": "memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], utilization.memory [%], temperature.gpu, power.draw.instant [W], power.limit [W]\n" +
			"23034 MiB, 1024 MiB, 21579 MiB, 73 %, 0 %, 61, 33.51 W, 72.00 W\n",
		"--query-gpu=clocks.gr,clocks.sm,clocks.max.mem,pstate,fan.speed --format=csv,noheader --id=1":                                                                  "210 MHz, 1800 MHz, 6251 MHz, P0, [N/A]\n",
		"--query-gpu=memory.used,utilization.gpu,power.limit --format=csv,noheader,nounits -i 0":                                                                        "1024, 73, 72.00\n",
		"--query-gpu=compute_cap,mig.mode.current,ecc.mode.current,ecc.errors.uncorrected.volatile.total,count,driver_version --format=csv,noheader -i " + gpus[1].UUID: "8.9, [N/A], Enabled, 2, 2, 580.95.05\n",
		"--query-gpu=pci.bus_id,pci.device_id,pci.domain,pci.bus --format=csv,noheader -i 0":                                                                            "00000000:17:00.0, 0x27B810DE, 0x0000, 0x17\n",
		"--query-compute-apps=used_memory,gpu_uuid,name --format=csv":                                                                                                   "used_gpu_memory [MiB], gpu_uuid, process_name\n1024 MiB, " + gpus[0].UUID + ", [Not Found]\n",
		"-L -i 1": fmt.Sprintf("GPU 1: NVIDIA L4 (UUID: %s)\n", gpus[1].UUID),
		"dmon -c 1 -s uc -i 0": "# gpu     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n" +
			"# Idx      %      %      %      %      %      %    MHz    MHz \n" +
			"    0     73      0      0      0      0      0    405    210 \n",
	} {
		if diff := cmp.Diff(want, smi(strings.Fields(args)...)); diff != "" {
			t.Errorf("nvidia-smi %s (-want +got):\n%s", args, diff)
		}
	}
	if got := smi("--query-gpu=timestamp", "--format=csv,noheader", "-i", "0"); !regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\n$`).MatchString(got) {
		t.Errorf("timestamp %q", got)
	}
	if _, stderr, code := s.run("exec", "--", "nvidia-smi", "-L", "-i", "7"); code != 1 || !strings.Contains(stderr, "No devices were found") {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
}

// Every field that help lists has a value, or is N/A, and reports no error.
func TestNvidiaSMIReadsAllFields(t *testing.T) {
	for _, model := range []string{"t4", "gb200", "h100-94"} {
		_, smi := smiNode(t, "--gpus", "1", "--model", model)
		names := regexp.MustCompile(`(?m)^  (\S+)`).FindAllStringSubmatch(smi("--help-query-gpu"), -1)
		if len(names) < 90 {
			t.Fatalf("help lists %d fields", len(names))
		}
		var list []string
		for _, n := range names {
			list = append(list, n[1])
		}
		values := strings.Split(strings.TrimSpace(smi("--query-gpu="+strings.Join(list, ","), "--format=csv,noheader")), ", ")
		assert.Equal(t, len(values), len(list))
		for i, v := range values {
			if v == "" {
				t.Errorf("%s: %s is empty", model, list[i])
			}
		}
	}
}

// Programs read the output by the names of nvsmi_device_v13.dtd.
func TestNvidiaSMIWritesXML(t *testing.T) {
	s, smi := smiNode(t, "--gpus", "2", "--model", "h100-80")
	s.must("mig", "mode", "1", "on")
	s.must("mig", "create", "1", "3g.40gb")
	s.must("proc", "add", "--memory", "1024", "0")
	s.must("set", "0.temperature=61", "0.utilization-gpu=73")
	type process struct {
		Used string `xml:"used_memory"`
	}
	type device struct {
		UUID string `xml:"uuid"`
		GI   int    `xml:"gpu_instance_id"`
	}
	type gpu struct {
		ID          string    `xml:"id,attr"`
		Name        string    `xml:"product_name"`
		MIG         string    `xml:"mig_mode>current_mig"`
		Devices     []device  `xml:"mig_devices>mig_device"`
		Total       string    `xml:"fb_memory_usage>total"`
		Used        string    `xml:"fb_memory_usage>used"`
		Utilization string    `xml:"utilization>gpu_util"`
		Temperature string    `xml:"temperature>gpu_temp"`
		Limit       string    `xml:"gpu_power_readings>max_power_limit"`
		Clock       string    `xml:"max_clocks>sm_clock"`
		Processes   []process `xml:"processes>process_info"`
	}
	var log struct {
		XMLName  xml.Name `xml:"nvidia_smi_log"`
		Driver   string   `xml:"driver_version"`
		Attached int      `xml:"attached_gpus"`
		GPUs     []gpu    `xml:"gpu"`
	}
	assert.NilError(t, xml.Unmarshal([]byte(smi("-q", "-x")), &log))
	instance := s.show().GPUs[1].MIG.GPUInstances[0]
	want := []gpu{
		{ID: "00000000:1B:00.0", Name: "NVIDIA H100 80GB HBM3", MIG: "Disabled", Total: "81559 MiB", Used: "1024 MiB", Utilization: "73 %", Temperature: "61 C", Limit: "700.00 W", Clock: "1980 MHz", Processes: []process{{"1024 MiB"}}},
		{ID: "00000000:43:00.0", Name: "NVIDIA H100 80GB HBM3", MIG: "Enabled", Devices: []device{{instance.ComputeInstances[0].UUID, instance.ID}}, Total: "81559 MiB", Used: "0 MiB", Utilization: "N/A", Temperature: "30 C", Limit: "700.00 W", Clock: "1980 MHz"},
	}
	if diff := cmp.Diff(want, log.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if log.Attached != 2 || log.Driver != "580.95.05" {
		t.Errorf("%d GPUs, driver %s", log.Attached, log.Driver)
	}
}

func TestNvidiaSMIShowsTheTopology(t *testing.T) {
	for model, want := range map[string][]string{
		"h100-80": {"GPU0\t X \tNV18\tNV18\t", "GPU1\tNV18\t X \tNV18\t"},
		"a100-40": {"GPU0\t X \tNV12\tNV12\t"},
		"l4":      {"GPU0\t X \tPIX\tPHB\t", "GPU2\tPHB\tPHB\t X \t"},
	} {
		_, smi := smiNode(t, "--gpus", "3", "--model", model)
		got := smi("topo", "-m")
		for _, line := range append(want, "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n", "  NV#  = ") {
			if !strings.Contains(got, line) {
				t.Errorf("%s: %q is missing in\n%s", model, line, got)
			}
		}
	}
}

// -l ends with its reader.
func TestNvidiaSMIRepeatsItself(t *testing.T) {
	s, _ := smiNode(t, "--gpus", "1", "--model", "l4")
	sh := s.shell()
	got := sh.run("nvidia-smi --query-gpu=index,name --format=csv -lms 10 | head -4")
	if want := "index, name\n0, NVIDIA L4\n0, NVIDIA L4\n0, NVIDIA L4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
