package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/stack"
)

// driver is what the modules of NVIDIA's driver depend on.
func driver() map[string]*module.Module {
	out := map[string]*module.Module{}
	for name, depends := range map[string]string{
		"nvidia": "i2c_core ipmi_msghandler", "nvidia_uvm": "nvidia", "nvidia_modeset": "nvidia video",
		"nvidia_drm": "drm drm_kms_helper nvidia_modeset", "nvidia_peermem": "nvidia ib_uverbs",
	} {
		out[name] = &module.Module{Name: name, Depends: strings.Fields(depends)}
	}
	return out
}

func TestLoadOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted                string
		order, absent, others string
	}{
		"as NVIDIA's driver container": {
			wanted: "nvidia nvidia_uvm nvidia_modeset", order: "nvidia nvidia_uvm nvidia_modeset", others: "i2c_core ipmi_msghandler video",
		},
		"a module brings what it needs": {
			wanted: "nvidia_drm", order: "nvidia nvidia_modeset nvidia_drm", others: "drm drm_kms_helper i2c_core ipmi_msghandler video",
		},
		"what is needed comes first, whatever was asked for first": {
			wanted: "nvidia_peermem nvidia", order: "nvidia nvidia_peermem", others: "i2c_core ib_uverbs ipmi_msghandler",
		},
		"modules of other packages are absent": {
			wanted: "nvidia nvidia_fs gdrdrv", order: "nvidia", absent: "nvidia_fs gdrdrv", others: "i2c_core ipmi_msghandler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			order, absent, others := stack.LoadOrder(driver(), strings.Fields(tc.wanted))
			got := []string{strings.Join(order, " "), strings.Join(absent, " "), strings.Join(others, " ")}
			if d := cmp.Diff([]string{tc.order, tc.absent, tc.others}, got); d != "" {
				t.Errorf("order, absent, others (-want +got):\n%s", d)
			}
		})
	}
}

func TestModulesThatDependOnEachOtherAreLoadedOnce(t *testing.T) {
	files := map[string]*module.Module{"a": {Depends: []string{"b"}}, "b": {Depends: []string{"a"}}}
	if order, _, _ := stack.LoadOrder(files, []string{"a"}); len(order) != 2 {
		t.Errorf("order %q", order)
	}
}

func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		options          stack.Options
		wanted, optional string
	}{
		{stack.Options{}, "nvidia nvidia_uvm nvidia_modeset", ""},
		{stack.All(), "nvidia nvidia_uvm nvidia_modeset nvidia_drm", "nvidia_peermem nvidia_fs gdrdrv"},
	} {
		got := []string{strings.Join(stack.Wanted(tc.options), " "), strings.Join(stack.Optional(tc.options), " ")}
		if d := cmp.Diff([]string{tc.wanted, tc.optional}, got); d != "" {
			t.Errorf("wanted, optional (-want +got):\n%s", d)
		}
	}
}

// loaded returns modules from "name refcount holder…" per line.
func loaded(text string) map[string]kernel.Loaded {
	out := map[string]kernel.Loaded{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		out[words[0]] = kernel.Loaded{Name: words[0], RefCount: len(words[1]) - 1, Holders: words[2:]}
	}
	return out
}

// The reference counts are in strokes: "." for none, ".||" for two.
func TestUnloadOrder(t *testing.T) {
	for name, tc := range map[string]struct{ loaded, order, used string }{
		"nothing is loaded": {"i2c_core .", "", ""},
		"the core alone":    {"nvidia .", "nvidia", ""},
		"holders of holders go first": {
			"nvidia .|| nvidia_modeset nvidia_uvm\nnvidia_modeset .| nvidia_drm\nnvidia_drm .\nnvidia_uvm .\ni2c_core .| nvidia",
			"nvidia_drm nvidia_modeset nvidia_uvm nvidia", "",
		},
		"whoever made them": {
			"nvidia .|| gdrdrv nvidia_fs\ngdrdrv .\nnvidia_fs .", "gdrdrv nvidia_fs nvidia", "",
		},
		"a process that has a device open": {
			"nvidia .||| nvidia_uvm\nnvidia_uvm .|", "nvidia_uvm nvidia", "nvidia_uvm nvidia",
		},
	} {
		t.Run(name, func(t *testing.T) {
			modules := loaded(tc.loaded)
			order := stack.UnloadOrder(modules)
			used := stack.Used(modules, order)
			if d := cmp.Diff([]string{tc.order, tc.used}, []string{strings.Join(order, " "), strings.Join(used, " ")}); d != "" {
				t.Errorf("order, used (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseParams(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want, err string
	}{
		"a parameter a line, with comments": {
			text: "# profiling\nNVreg_RestrictProfilingToAdminUsers=0\n\n NVreg_DeviceFileMode=0660 # of nodes\r\n",
			want: "NVreg_RestrictProfilingToAdminUsers=0|NVreg_DeviceFileMode=0660",
		},
		"quotes go":          {text: `NVreg_RegistryDwords="A=1; B=2#3" uvm_x=1`, want: `NVreg_RegistryDwords=A=1; B=2#3|uvm_x=1`},
		"no value":           {text: "a=1\nNVreg_X", err: `nvidia.conf, line 2: "NVreg_X" is not in the format name=value`},
		"a line of modprobe": {text: "options nvidia a=1", err: `nvidia.conf, line 1: "options" is not in the format name=value`},
		"twice":              {text: "a=1\na=2", err: "nvidia.conf, line 2: the parameter a is set twice"},
		"open quote":         {text: `a="1`, err: "nvidia.conf, line 1: a quote is not closed"},
		"control":            {text: "a=\x001", err: `nvidia.conf, line 1: the control character '\x00' is not allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stack.ParseParams("nvidia.conf", tc.text)
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			if err != nil || strings.Join(got, "|") != tc.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestFilesHaveTheirModules(t *testing.T) {
	var got []string
	for _, file := range stack.Files() {
		got = append(got, stack.ModuleOf("/drivers/"+file))
	}
	if d := cmp.Diff("nvidia nvidia_uvm nvidia_modeset nvidia_drm nvidia_peermem", strings.Join(got, " ")); d != "" {
		t.Error(d)
	}
}

func TestDifferingParameters(t *testing.T) {
	is := map[string]kernel.Loaded{"nvidia": {Params: map[string]string{"A": "Y", "B": "16", "C": "-1", "D": "x", "E": "N"}}}
	for param, want := range map[string]bool{
		"A=1": false, "B=0x10": false, "C=0xffffffffffffffff": false, "D=x": false, "E=1": true, "Hidden=3": false, "D=y": true,
	} {
		if got := (stack.Params{"nvidia": {"A=1", param}, "nvidia_uvm": {"u=1"}}).Differ(is); got != want {
			t.Errorf("%s differs: %t, want %t", param, got, want)
		}
	}
}

func FuzzParseParams(f *testing.F) {
	f.Add("NVreg_A=1 b=\"x y\"\n# c")
	f.Fuzz(func(t *testing.T, text string) {
		params, err := stack.ParseParams("f", text)
		if err != nil {
			return
		}
		again, err := stack.ParseParams("f", `"`+strings.Join(params, "\"\n\"")+`"`)
		if d := cmp.Diff(params, again, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Errorf("read again: %v\n%s", err, d)
		}
	})
}
