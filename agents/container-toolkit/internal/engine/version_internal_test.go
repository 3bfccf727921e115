package engine

import (
	"context"
	"strings"
	"testing"
	"time"

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

// Only a program that ended by itself has rejected a config.
func TestWhatRejectsAConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		program string
		limit   time.Duration
		args    []string
		rejects bool
	}{
		"an exit code":         {"/bin/sh", time.Minute, []string{"-c", "exit 1"}, true},
		"no program":           {"/nonexistent", time.Minute, nil, false},
		"a program that hangs": {"/bin/sleep", 100 * time.Millisecond, []string{"60"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			_, err := host{root: "/"}.run(ctx, tc.program, "containerd", tc.args...)
			assert.Assert(t, err != nil)
			err = rejected("containerd rejects the config", err)
			assert.Equal(t, strings.HasPrefix(err.Error(), "containerd rejects the config: "), tc.rejects, err.Error())
		})
	}
	assert.NilError(t, rejected("containerd rejects the config", nil))
}
