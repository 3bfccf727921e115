package engine

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
)

// Containerd 1 ignores the tables of a config of version 3. The error names the version, and nothing is
// changed.
func TestRealContainerdIgnoresANewerConfig(t *testing.T) {
	for v, program := range containerds(t) {
		t.Run(v, func(t *testing.T) {
			const text = "version = 3\n"
			r := newReal(t, Containerd, program)
			r.put("config", text)
			_, err := r.keeper().Apply(context.Background())
			if parseVersion(v + ".0").atLeast(version2()) {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, "containerd "+v+" ignores the settings of "+r.dir+"/")
			assert.ErrorContains(t, err, "which has version = 3: update containerd, or set version = 2")
			assert.Equal(t, r.get("config"), text)
		})
	}
}
