package ready_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/feature-discovery/internal/ready"
)

func TestParseChain(t *testing.T) {
	for name, tc := range map[string]struct {
		words []string
		want  []ready.Link
		// err lists parts of the error.
		err []string
	}{
		"no words give no chain":        {want: []ready.Link{}},
		"all words":                     {words: []string{"driver", "mig", "toolkit", "plugin", "cuda"}, want: ready.Links()},
		"the order of words is ignored": {words: []string{"cuda", "driver"}, want: []ready.Link{ready.Driver, ready.CUDA}},
		"spaces around a word":          {words: []string{" plugin "}, want: []ready.Link{ready.Plugin}},
		"an unknown word":               {words: []string{"driver", "dcgm"}, err: []string{`"dcgm"`, "driver, mig, toolkit, plugin, cuda"}},
		"an empty word":                 {words: []string{""}, err: []string{`""`, "driver, mig, toolkit, plugin, cuda"}},
		"words are case-sensitive":      {words: []string{"CUDA"}, err: []string{`"CUDA"`, "driver, mig, toolkit, plugin, cuda"}},
		"a word twice":                  {words: []string{"plugin", "driver", "plugin"}, err: []string{`"plugin"`, "twice"}},
		"all errors are reported":       {words: []string{"x", "cuda", "cuda"}, err: []string{`"x"`, "twice"}},
		"an unknown word twice":         {words: []string{"x", "x"}, err: []string{`"x"`}},
		"words that were not split":     {words: []string{"driver,cuda"}, err: []string{`"driver,cuda"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ready.ParseChain(tc.words)
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("ParseChain() = %v, %v", got, err)
			}
			for _, part := range tc.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("ParseChain() = %v, want %q in the error", err, part)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
		})
	}
}
