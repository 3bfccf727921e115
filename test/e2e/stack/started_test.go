package stack

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStart(t *testing.T) {
	// As ctr prints the record; systemd_cgroup is field 9.
	const record = `{"ID": "a1", "Runtime": {"Name": "io.containerd.runc.v2", "Options": %s}, "Spec": {"ociVersion": "1.3.0", "hooks": %s}}`
	options := func(raw string) string {
		return fmt.Sprintf(`{"type_url": "containerd.runc.v1.Options", "value": %q}`, base64.StdEncoding.EncodeToString([]byte(raw)))
	}
	const runtime, hook = Tools + "nvidia-container-runtime", Tools + "nvidia-cdi-hook"
	for name, c := range map[string]struct {
		options, hooks string
		want           Start
		toolkit        bool
	}{
		"the toolkit's runtime and hook": {
			options("\x48\x01\x32" + string(rune(len(runtime))) + runtime),
			`{"createContainer": [{"path": "` + hook + `"}]}`,
			Start{Runtime: runtime, Hooks: []string{hook}},
			true,
		},
		"its runtime alone":   {options("\x32" + string(rune(len(runtime))) + runtime), `null`, Start{Runtime: runtime}, false},
		"the default runtime": {options("\x48\x01"), `{"createContainer": [{"path": "` + hook + `"}]}`, Start{Hooks: []string{hook}}, false},
		"no options":          {`null`, `{}`, Start{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStart(fmt.Appendf(nil, record, c.options, c.hooks))
			if d := cmp.Diff(c.want, got); d != "" || err != nil || got.ByToolkit() != c.toolkit {
				t.Errorf("parseStart() = %+v, %v; want %+v, by the toolkit: %v", got, err, c.want, c.toolkit)
			}
		})
	}
	if got, err := parseStart(fmt.Appendf(nil, record, options("\x32\x7f"), `null`)); err == nil {
		t.Errorf("options that are cut give %+v", got)
	}
}
