package config_test

import (
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/config"
)

func TestOutputOfGFD(t *testing.T) {
	for name, tc := range map[string]struct {
		flags config.Explicit
		file  string
		want  config.Output
	}{
		"nothing is said":                 {want: config.OutputUnset},
		"a file":                          {flags: config.Explicit{"output-file": {"/f"}}, want: config.OutputFile},
		"standard output":                 {flags: config.Explicit{"output-file": {""}}, want: config.OutputFile},
		"the API":                         {flags: config.Explicit{"use-node-feature-api": {"true"}}, want: config.OutputNodeFeature},
		"the API goes before a file":      {flags: config.Explicit{"use-node-feature-api": {"true"}, "output-file": {"/f"}}, want: config.OutputNodeFeature},
		"no API leaves the file":          {flags: config.Explicit{"use-node-feature-api": {"false"}}, want: config.OutputFile},
		"a flag goes before the file":     {flags: config.Explicit{"use-node-feature-api": {"false"}}, file: "flags: {useNodeFeatureAPI: true}", want: config.OutputFile},
		"the file alone":                  {file: "flags: {useNodeFeatureAPI: true}", want: config.OutputNodeFeature},
		"the file alone, with its output": {file: "flags: {gfd: {outputFile: /f}}", want: config.OutputFile},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(tc.flags, []byte(tc.file), "c.yaml")
			if err != nil || got.GFD.Output != tc.want {
				t.Errorf("output %q, %v, want %q", got.GFD.Output, err, tc.want)
			}
		})
	}
}

func TestSleepInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"infinite": 0, "90s": 90 * time.Second, "50ms": 50 * time.Millisecond, "90000000000": 90 * time.Second,
		// Helm writes large numbers like this.
		"9e+10": 90 * time.Second,
		// NVIDIA's programs do not pause then.
		"0": time.Minute, "0s": time.Minute, "60": time.Minute, "1us": time.Minute, "1.5": time.Minute, "-1s": time.Minute, "-1": time.Minute,
	} {
		got, err := config.Load(config.Explicit{"sleep-interval": {text}}, nil, "")
		if err != nil || got.GFD.SleepInterval != want {
			t.Errorf("%s: %v, %v, want %v", text, got.GFD.SleepInterval, err, want)
		}
		got, err = config.Load(config.Explicit{}, []byte("flags: {gfd: {sleepInterval: "+text+"}}"), "c.yaml")
		if err != nil || got.GFD.SleepInterval != want {
			t.Errorf("%s in the file: %v, %v, want %v", text, got.GFD.SleepInterval, err, want)
		}
	}
	for _, text := range []string{"", "060", "0x60", "1e300", "soon"} {
		_, err := config.Load(config.Explicit{"sleep-interval": {text}}, nil, "")
		if err == nil || !strings.Contains(err.Error(), "flag --sleep-interval") {
			t.Errorf("%q: %v, want an error", text, err)
		}
		_, err = config.Load(config.Explicit{}, []byte("flags: {gfd: {sleepInterval: \""+text+"\"}}"), "c.yaml")
		if err == nil || !strings.Contains(err.Error(), "c.yaml:1: flags.gfd.sleepInterval") {
			t.Errorf("%q in the file: %v, want an error with its line", text, err)
		}
	}
}
