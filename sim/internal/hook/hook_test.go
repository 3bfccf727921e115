package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/hook"
)

func TestRun(t *testing.T) {
	root, absolute := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct{ root, state, config, want string }{
		"a node that was removed": {root + "/gone", "", "", ""},
		// The folders have no procfs and no sysfs, so nothing is mounted.
		"a root in the bundle":       {root, "", `{"root":{"path":"rootfs"}}`, ""},
		"a root elsewhere":           {root, "", fmt.Sprintf(`{"root":{"path":%q}}`, absolute), ""},
		"a root that does not exist": {root, "", `{"root":{"path":"gone"}}`, "/gone, the root of the container: no such file"},
		"no root":                    {root, "", `{}`, "names no root"},
		"no config":                  {root, `{"bundle":"/nowhere"}`, "", "/nowhere/config.json"},
		"a state that is no JSON":    {root, "{", "", "read the state of the container"},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := t.TempDir()
			assert.NilError(t, os.Mkdir(filepath.Join(bundle, "rootfs"), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(c.config), 0o600))
			state := c.state
			if state == "" {
				state = fmt.Sprintf(`{"ociVersion":"1.2.0","bundle":%q}`, bundle)
			}
			err := hook.Run(c.root, strings.NewReader(state))
			if c.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "nri.enabled=false of the chart gpu-sim")
		})
	}
}
