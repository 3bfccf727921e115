package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"outrigger.dev/pkg/config"
)

var validName = regexp.MustCompile(`^nvidia\.com/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// oldBool matches the booleans that only YAML 1.1 has.
var oldBool = regexp.MustCompile(`(?i)\b(y|yes|on|n|no|off)\b`)

// checkValid reports what Load must never return.
func checkValid(t *testing.T, c config.Config) {
	t.Helper()
	if (c.Sharing.Strategy == config.SharingNone) != (len(c.Sharing.Shares) == 0) {
		t.Errorf("strategy %q with %d shares", c.Sharing.Strategy, len(c.Sharing.Shares))
	}
	for _, s := range c.Sharing.Shares {
		for _, name := range []string{s.Name, s.Rename} {
			if len(name) > 63 || !validName.MatchString(name) {
				t.Errorf("name %q in %+v", name, s)
			}
		}
		if s.Replicas != config.AutoReplicas && (s.Replicas < 1 || s.Replicas > config.MaxReplicas) {
			t.Errorf("replicas in %+v", s)
		}
		if s.Devices.Count < 0 || s.Devices.Count > 0 && len(s.Devices.Refs) > 0 {
			t.Errorf("devices in %+v", s)
		}
		for _, ref := range s.Devices.Refs {
			if !ref.Valid() {
				t.Errorf("device %q in %+v", ref, s)
			}
		}
	}
	for _, p := range append(c.Resources.GPUs, c.Resources.MIG...) {
		if p.Pattern == "" || len(p.Name) > 63 || !validName.MatchString(p.Name) {
			t.Errorf("pattern %+v", p)
		}
	}
	if len(c.ListStrategies) == 0 || c.Policy == "" || c.MIGStrategy == "" || c.IDStrategy == "" || c.Driver.Root == "" {
		t.Errorf("something is not set in %+v", c)
	}
}

// FuzzParse checks that no file makes Load panic, that what it accepts is
// valid, and that the same content in JSON is the same config.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, seed := range []string{
		"", "version: v1\n", "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - {name: gpu, replicas: 10, devices: 2}\n",
		`{"version":"v1","flags":{"migStrategy":"none","plugin":{"deviceListStrategy":"envvar,cdi-cri"}}}`,
		"a: &a [*a]\nsharing: *a\n", "imex: {channelIDs: []}\ndevices: {exclude: [1, GPU-*]}\n", "? [a]\n: b\n", "---\n---\n", "flags: &f {<<: *f}\n",
		"sharing: {timeSlicing: {resources: [&r {name: gpu, replicas: 2}, {<<: [*r], name: mig-1g.5gb}]}}\n",
		"flags: {failOnInitError: yes, gfd: {sleepInterval: 60}, plugin: {deviceListStrategy: []}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Load(config.Explicit{}, data, "c.yaml")
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "c.yaml:") {
					t.Errorf("a line without the file in %q", err)
				}
			}
			return
		}
		checkValid(t, c)
		var plain any
		if err := yaml.Unmarshal(data, &plain); err != nil {
			return // keys of feature discovery are not checked
		}
		if oldBool.Match(data) {
			return // the YAML library takes these words for texts
		}
		inJSON, err := json.Marshal(plain)
		if err != nil {
			return
		}
		again, err := config.Load(config.Explicit{}, inJSON, "c.json")
		if err != nil {
			t.Fatalf("the same in JSON, %s: %v", inJSON, err)
		}
		c.Warnings, again.Warnings = nil, nil // they have lines
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("the same in JSON, %s (-yaml +json):\n%s", inJSON, diff)
		}
	})
}

// FuzzResourceConfig checks that no value makes Load panic, and that what it
// accepts can be written down again.
func FuzzResourceConfig(f *testing.F) {
	for _, seed := range []string{
		"gpu:sharedgpu:4", "mig-3g.20gb:gpu:1,gpu:gpu:1", "gpu:gpu-mem-gb:-1", "gpu", " nvidia.com/gpu : a , ", "gpu:a:0", ":::", "gpu::",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		c, err := loadFork(value)
		if err != nil {
			return
		}
		checkValid(t, c)
		var entries []string
		for _, s := range c.Sharing.Shares {
			entries = append(entries, fmt.Sprintf("%s:%s:%d", s.Name, s.Rename, s.Replicas))
		}
		again, err := loadFork(strings.Join(entries, ","))
		if err != nil {
			t.Fatalf("what was read from %q and written as %q: %v", value, entries, err)
		}
		c.Warnings, again.Warnings = nil, nil // they have the text of an entry
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("what was read from %q and written as %q (-want +got):\n%s", value, entries, diff)
		}
	})
}
