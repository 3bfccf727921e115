package app_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestNvidiaSMIShowsP2P(t *testing.T) {
	const legend = "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  GNS  = GPU not supported\n" +
		"  TNS  = Topology not supported\n  NS   = Not supported\n  U    = Unknown"
	for model, want := range map[string]map[string]string{
		"h100-80": {"r": "OK", "w": "OK", "n": "OK", "a": "OK"},
		"l4":      {"r": "OK", "n": "NS", "a": "NS", "p": "OK"},
	} {
		_, smi := smiNode(t, "--gpus", "2", "--model", model)
		for letter, word := range want {
			matrix := fmt.Sprintf(" \tGPU0\tGPU1\t\n GPU0\tX\t%[1]s\t\n GPU1\t%[1]s\tX\t\n", word)
			assert.Equal(t, strings.TrimSpace(smi("topo", "-p2p", letter)), strings.TrimSpace(matrix+legend), "%s %s", model, letter)
		}
	}
	s, _ := smiNode(t, "--gpus", "3", "--model", "h100-80")
	s.must("lose", "1")
	out, errs, code := s.run("exec", "--", "nvidia-smi", "topo", "-p2p", "r")
	if code != 1 || !strings.HasPrefix(out, " \tGPU0\tGPU2\t\n GPU0\tX\tOK\t\n GPU2\tOK\tX\t\n") || !strings.Contains(errs, "GPU 1: ") {
		t.Errorf("with a GPU lost: exit code %d, error %q, output\n%s", code, errs, out)
	}
}

func TestNvidiaSMIShowsNVLinks(t *testing.T) {
	s, smi := smiNode(t, "--gpus", "2", "--model", "h100-80")
	s.must("set", "1.nvlinks=17", "1.nvlink-replay-errors=2:5", "1.nvlink-crc-flit-errors=2:7")
	gpus := s.show().GPUs
	status := smi("nvlink", "-s")
	for _, want := range []string{
		fmt.Sprintf("GPU 0: NVIDIA H100 80GB HBM3 (UUID: %s)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n", gpus[0].UUID),
		"\t Link 17: 26.562 GB/s\nGPU 1: ", "\t Link 16: 26.562 GB/s\n\t Link 17: <inactive>",
	} {
		assert.Assert(t, strings.Contains(status, want), "%q is missing in\n%s", want, status)
	}
	counters := smi("nvlink", "--errorcounters", "-i", "1")
	for _, want := range []string{
		"\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 0\n\n\t Link 1: ", "\t Link 2: Replay Errors: 5\n\t Link 2: Recovery Errors: 0\n\t Link 2: CRC Errors: 7\n",
	} {
		assert.Assert(t, strings.Contains(counters, want), "%q is missing in\n%s", want, counters)
	}
	assert.Assert(t, !strings.Contains(counters, "GPU 0"))
	const capabilities = "\t Link 0, P2P is supported: true\n\t Link 0, Access to system memory supported: true\n\t Link 0, P2P atomics supported: true\n" +
		"\t Link 0, System memory atomics supported: true\n\t Link 0, SLI is supported: false\n\t Link 0, Link is supported: true\n\t Link 1, P2P"
	if got := smi("nvlink", "-c"); !strings.Contains(got, capabilities) {
		t.Errorf("%q is missing in\n%s", capabilities, got)
	}
	_, smi = smiNode(t, "--gpus", "1", "--model", "l4")
	assert.Equal(t, smi("nvlink", "-s"), "")
}
