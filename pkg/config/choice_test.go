package config_test

import (
	"testing"

	"outrigger.dev/pkg/config"
)

func TestChoose(t *testing.T) {
	all := []config.Fallback{config.FallbackNamed, config.FallbackSingle, config.FallbackEmpty}
	two := []string{"shared", "default"}
	for name, tc := range map[string]struct {
		chooser config.Chooser
		label   string
		files   []string
		want    string
		err     string
	}{
		"the label goes before all": {
			chooser: config.Chooser{Default: "default", Fallbacks: all}, label: "shared", files: two, want: "shared",
		},
		"a label that names no file does not fall back": {
			chooser: config.Chooser{Default: "default", Fallbacks: all}, label: "share", files: two,
			err: `choose config: the node's label asks for "share": there is default or shared`,
		},
		"a label that names what Kubernetes has beside the files": {
			label: "..data", files: []string{"..data"}, err: `choose config: the node's label asks for "..data": there is none`,
		},
		"the default goes before fallbacks": {
			chooser: config.Chooser{Default: "shared", Fallbacks: all}, files: two, want: "shared",
		},
		"a default that is not there": {
			chooser: config.Chooser{Default: "share", Fallbacks: all}, files: two,
			err: `choose config: --default-config asks for "share": there is default or shared`,
		},
		"named":             {chooser: config.Chooser{Fallbacks: all}, files: two, want: "default"},
		"single":            {chooser: config.Chooser{Fallbacks: all}, files: []string{"..data", "shared"}, want: "shared"},
		"single before all": {chooser: config.Chooser{Fallbacks: []config.Fallback{"single", "named"}}, files: []string{"default"}, want: "default"},
		"empty":             {chooser: config.Chooser{Fallbacks: all}, files: []string{"a", "b"}, want: ""},
		"empty first":       {chooser: config.Chooser{Fallbacks: []config.Fallback{"empty", "named"}}, files: two, want: ""},
		"no fallback fits": {
			chooser: config.Chooser{Fallbacks: []config.Fallback{"named", "single"}}, files: []string{"a", "b"},
			err: "choose config: the node has no label that names one, and none of the fallbacks named or single fits: there is a or b; set --default-config, or label the node",
		},
		"no fallbacks": {
			files: []string{"a"},
			err:   "choose config: the node has no label that names one, and there is neither --default-config nor --fallback-strategies",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.chooser.Choose(tc.label, tc.files)
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
	if err := (config.Chooser{Fallbacks: []config.Fallback{"named", "single", "empty"}}).Check(); err != nil {
		t.Error(err)
	}
	wantErrors(t, []string{`flag --fallback-strategies: invalid value "first": must be named, single or empty`},
		config.Chooser{Fallbacks: []config.Fallback{"named", "first"}}.Check())
}
