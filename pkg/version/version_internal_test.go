package version

import (
	"runtime/debug"
	"testing"
)

func TestString(t *testing.T) {
	read := func(v string) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) { return &debug.BuildInfo{Main: debug.Module{Version: v}}, v != "" }
	}
	cases := map[string]struct{ stamped, module, want string }{
		"the stamp wins":              {"26.11.0", "v1.2.3", "26.11.0"},
		"no stamp, a module version":  {"", "v1.2.3", "v1.2.3"},
		"a build of the working tree": {"", "(devel)", "dev"},
		"no build information":        {"", "", "dev"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := choose(tc.stamped, read(tc.module)); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}
