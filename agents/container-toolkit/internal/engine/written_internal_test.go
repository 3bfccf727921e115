package engine

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
)

// Many editors empty a file, and then write it.
func TestAnEditThatIsNotCompleteIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		engine           Name
		path, text, edit string
	}{
		"Docker":                         {Docker, dockerConfig, "{\"bip\": \"10.0.0.1/24\"}\n", "{\"bip\": \"10.0.0.2/24\"}\n"},
		"Docker without a config before": {Docker, dockerConfig, "", "{\"bip\": \"10.0.0.2/24\"}\n"},
		"containerd":                     {Containerd, containerdConfig, "version = 2\noom_score = 1\n", "version = 2\noom_score = 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if tc.text != "" {
				n.put(tc.path, tc.text)
			}
			c := n.config(tc.engine)
			n.apply(c)
			n.put(tc.path, "")
			k := n.keeper(c)
			pauses := 0
			k.pause = func(context.Context) bool {
				if pauses++; pauses == 2 {
					n.put(tc.path, tc.edit)
				}
				return true
			}
			_, err := k.Apply(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, pauses, 2)
			n.undo(c)
			assert.Equal(t, n.get(tc.path), tc.edit)
			// A file that stays empty is as the user wants it.
			n.apply(c)
			n.put(tc.path, "")
			pauses = 2
			p, err := k.Apply(context.Background())
			assert.NilError(t, err)
			assert.Assert(t, !p.Empty())
			assert.Assert(t, pauses < 10)
		})
	}
}
