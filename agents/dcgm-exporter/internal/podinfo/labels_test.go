package podinfo_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
)

func TestLabels(t *testing.T) {
	for name, c := range map[string]struct {
		of       map[string]string
		allow    []string
		reserved []string
		want     []podinfo.Label
	}{
		"all without an allow-list": {
			of:   map[string]string{"app.kubernetes.io/name": "train", "team": "ml"},
			want: []podinfo.Label{{"app_kubernetes_io_name", "train"}, {"team", "ml"}},
		},
		"an allow-list matches any part of a key": {
			of: map[string]string{"app.kubernetes.io/name": "train", "team": "ml", "my-team": "x", "hash": "y"}, allow: []string{"^app", "team$", ""},
			want: []podinfo.Label{{"app_kubernetes_io_name", "train"}, {"my_team", "x"}, {"team", "ml"}},
		},
		"keys that become one name": {
			of:   map[string]string{"a.b": "1", "a-b": "2", "a_b": "3", "a_b_2": "4"},
			want: []podinfo.Label{{"a_b", "2"}, {"a_b_2", "1"}, {"a_b_3", "3"}, {"a_b_2_2", "4"}},
		},
		"names of the exporter": {
			of: map[string]string{"gpu": "1", "label_gpu": "2", "label-gpu": "3"}, reserved: []string{"gpu", "label_gpu_2"},
			want: []podinfo.Label{{"label_gpu", "1"}, {"label_gpu_3", "3"}, {"label_gpu_4", "2"}},
		},
		"a digit at the start": {of: map[string]string{"1st": "x"}, want: []podinfo.Label{{"_1st", "x"}}},
		"what no API server sends": {
			of:   map[string]string{"": "empty", "ä\n\"": "x"},
			want: []podinfo.Label{{"_2", "empty"}, {"___", "x"}},
		},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			allow, err := podinfo.ParseAllow(c.allow)
			assert.NilError(t, err)
			got := podinfo.Rules{Allow: allow, Reserved: c.reserved}.Labels(c.of)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("labels (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseAllowReportsAllErrors(t *testing.T) {
	got, err := podinfo.ParseAllow([]string{"(", "^a", "[z-a]"})
	if err == nil || !strings.Contains(err.Error(), `"(": `) || !strings.Contains(err.Error(), `"[z-a]": `) || len(got) != 1 {
		t.Errorf("%v, error %v", got, err)
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("a.b", "a-b", "a_b", "a_b_2")
	f.Add("gpu", "label_gpu", "1", "")
	pattern := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	f.Fuzz(func(t *testing.T, a, b, c, reserved string) {
		of := map[string]string{a: "1", b: "2", c: "3"}
		var names []string
		for _, l := range (podinfo.Rules{Reserved: []string{reserved, "gpu"}}).Labels(of) {
			if !pattern.MatchString(l.Name) || l.Name == reserved || l.Name == "gpu" || slices.Contains(names, l.Name) {
				t.Errorf("name %q after %q", l.Name, names)
			}
			names = append(names, l.Name)
		}
		if len(names) != len(of) {
			t.Errorf("%d names of %d labels", len(names), len(of))
		}
	})
}
