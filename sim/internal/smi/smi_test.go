package smi_test

import (
	"bytes"
	"strings"
	"testing"

	"outrigger.dev/sim/internal/smi"
)

// What cannot be played is rejected before the library is opened.
func TestRunRejectsWhatItCannotPlay(t *testing.T) {
	cases := map[string]struct {
		program string
		args    []string
		want    string
	}{
		"another program":  {"nvidia-xconfig", nil, "nvidia-xconfig: not simulated"},
		"another option":   {"nvidia-smi", []string{"-pm", "1"}, "-pm: not simulated"},
		"another field":    {"nvidia-smi", []string{"--query-gpu=index,gom.current", "--format=csv"}, "--query-gpu=gom.current: not simulated"},
		"another format":   {"nvidia-smi", []string{"--query-gpu=index", "--format=csv,units"}, "--format=csv,units: want csv[,noheader][,nounits]"},
		"no format":        {"nvidia-smi", []string{"--query-gpu=index"}, "need --format=csv"},
		"a format only":    {"nvidia-smi", []string{"--format=csv"}, "--format without --query-gpu"},
		"XML of a list":    {"nvidia-smi", []string{"-L", "-x"}, "-x without -q: not simulated"},
		"a pause of 0":     {"nvidia-smi", []string{"-l", "0"}, "option -l=0: want a number of at least 1"},
		"no value":         {"nvidia-smi", []string{"-i"}, "option -i has no value"},
		"another matrix":   {"nvidia-smi", []string{"topo", "-p2p", "rw"}, "topo -p2p rw: not simulated"},
		"no NVLink values": {"nvidia-smi", []string{"nvlink", "-i", "0"}, "nvlink: want -s, -c or -e"},
		"two of them":      {"nvidia-smi", []string{"nvlink", "-s", "-e"}, "nvlink: want one of -s, -c and -e"},
		"other links":      {"nvidia-smi", []string{"nvlink", "-R"}, "nvlink -R: not simulated"},
		"other metrics":    {"nvidia-smi", []string{"dmon", "-s", "t"}, "dmon -s t: not simulated"},
		"a process column": {"nvidia-smi", []string{"--query-compute-apps=sm", "--format=csv"}, "--query-compute-apps=sm: not simulated"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := smi.Run(tc.program, tc.args, &out)
			if err == nil || !strings.Contains(err.Error(), tc.want) || out.Len() > 0 {
				t.Errorf("got error %v and output %q, want an error with %q", err, out.String(), tc.want)
			}
		})
	}
}
