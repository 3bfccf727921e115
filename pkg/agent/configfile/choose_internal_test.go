package configfile

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
)

func TestChoose(t *testing.T) {
	all := []string{fallbackNamed, fallbackSingle, fallbackEmpty}
	two := []string{"shared", "default"}
	for name, tc := range map[string]struct {
		chooser chooser
		label   string
		files   []string
		want    string
		err     string
	}{
		"the label takes precedence": {
			chooser: chooser{preferred: "default", fallbacks: all}, label: "shared", files: two, want: "shared",
		},
		"a label that names no file does not fall back": {
			chooser: chooser{preferred: "default", fallbacks: all}, label: "share", files: two,
			err: `choose config: the node's label names "share": found default, shared`,
		},
		"a label and an empty folder": {label: "shared", err: `choose config: the node's label names "shared": found no file`},
		"the default takes precedence over fallbacks": {
			chooser: chooser{preferred: "shared", fallbacks: all}, files: two, want: "shared",
		},
		"a default that does not exist": {
			chooser: chooser{preferred: "share", fallbacks: all}, files: two,
			err: `choose config: --default-config names "share": found default, shared`,
		},
		"named":             {chooser: chooser{fallbacks: all}, files: two, want: "default"},
		"single":            {chooser: chooser{fallbacks: all}, files: []string{"shared"}, want: "shared"},
		"single before all": {chooser: chooser{fallbacks: []string{"single", "named"}}, files: []string{"default"}, want: "default"},
		"empty":             {chooser: chooser{fallbacks: all}, files: []string{"a", "b"}, want: ""},
		"empty first":       {chooser: chooser{fallbacks: []string{"empty", "named"}}, files: two, want: ""},
		"no fallback fits": {
			chooser: chooser{fallbacks: []string{"named", "single"}}, files: []string{"a", "b"},
			err: "choose config: the node has no label that selects a config, and no file fits --fallback-strategies (named or single): found a, b; label the node, or set --default-config",
		},
		"no fallbacks": {
			files: []string{"a"},
			err:   "choose config: the node has no label that selects a config: label the node, or set --default-config or --fallback-strategies",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.chooser.choose(tc.label, slices.Clone(tc.files))
			if text := ""; err != nil || tc.err != "" {
				if err != nil {
					text = err.Error()
				}
				if text != tc.err {
					t.Errorf("error is %q, want %q", text, tc.err)
				}
			}
			if got != tc.want {
				t.Errorf("chosen is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChooserCheck(t *testing.T) {
	assert.NilError(t, (chooser{fallbacks: []string{"named", "single", "empty"}}).check())
	err := chooser{fallbacks: []string{"named", "first"}}.check()
	if want := `flag --fallback-strategies: invalid value "first": must be named, single or empty`; err == nil || err.Error() != want {
		t.Errorf("check() = %v, want %s", err, want)
	}
}
