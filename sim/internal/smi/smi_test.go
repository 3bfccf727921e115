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
		"another program":   {"nvidia-xconfig", nil, "nvidia-xconfig: not simulated"},
		"another option":    {"nvidia-smi", []string{"-pm", "1"}, "-pm 1: not simulated"},
		"another field":     {"nvidia-smi", []string{"--query-gpu=index,temperature.gpu", "--format=csv"}, "--query-gpu=temperature.gpu: not simulated"},
		"another format":    {"nvidia-smi", []string{"--query-gpu=index", "--format=csv,nounits"}, "--format=csv,nounits: not simulated"},
		"a format only":     {"nvidia-smi", []string{"--format=csv"}, "no --query-gpu: not simulated"},
		"list and one more": {"nvidia-smi", []string{"-L", "-i", "0"}, "-L -i 0: not simulated"},
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
