package engine

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// edits are configs of users that replace another one.
var edits = map[Name]struct{ path, text, edit string }{
	Docker:     {dockerConfig, "{\n  \"debug\": true\n}\n", "{\n  \"bip\": \"10.0.0.2/24\"\n}\n"},
	Containerd: {containerdConfig, "version = 2\noom_score = 1\n", "version = 2\noom_score = 2\n"},
	CRIO:       {crioDropIn, "[crio.runtime]\nlog_level = \"info\"\n", "[crio.runtime]\nlog_level = \"debug\"\n"},
}

// atStep calls edit before the step with this number. reached says whether there was such a step.
func atStep(k *Keeper, number int, edit func()) (reached *bool) {
	reached = new(bool)
	k.step = func(string) {
		if number == 0 {
			edit()
			*reached = true
		}
		number--
	}
	k.pause = func(context.Context) bool { return true }
	return reached
}

// A person replaces a config file at each step of a change. The edit is never lost, and the next change begins
// with it.
func TestAnEditDuringAChangeIsKept(t *testing.T) {
	for engine, e := range edits {
		for _, action := range []string{"apply", "change", "undo"} {
			t.Run(string(engine)+"/"+action, func(t *testing.T) {
				for step := 0; ; step++ {
					n := newNode(t)
					n.version = mergesTables()
					n.put(e.path, e.text)
					c := n.config(engine)
					other := c
					other.RuntimePath = "/usr/bin/nvidia-container-runtime"
					do := (*Keeper).Apply
					switch action {
					case "change":
						n.apply(other)
					case "undo":
						n.apply(c)
						do = (*Keeper).Undo
					}
					k := n.keeper(c)
					reached := atStep(k, step, func() { n.put(e.path, e.edit) })
					_, err := do(k, context.Background())
					assert.NilError(t, err)
					if !*reached {
						break
					}
					assert.Assert(t, strings.Contains(n.get(e.path), strings.Split(e.edit, "\n")[1]), "step %d: %s", step, n.get(e.path))
					n.apply(c)
					n.undo(c)
					assert.Equal(t, n.get(e.path), e.edit, "step %d", step)
				}
			})
		}
	}
}

func TestAFileThatIsAlwaysEdited(t *testing.T) {
	for engine, e := range edits {
		t.Run(string(engine), func(t *testing.T) {
			n := newNode(t)
			n.version = mergesTables()
			k := n.keeper(n.config(engine))
			text, pauses := e.text, 0
			k.step = func(string) {
				text += "\n"
				n.put(e.path, text)
			}
			k.pause = func(context.Context) bool {
				pauses++
				return true
			}
			_, err := k.Apply(context.Background())
			assert.ErrorContains(t, err, e.path+": another program or user edits it at the moment")
			assert.Equal(t, n.get(e.path), text)
			assert.Equal(t, pauses, 4)
		})
	}
}

// containerd's own program compares its config before and after a change. An edit meanwhile is no fault of
// the change.
func TestRealContainerdIsEditedMeanwhile(t *testing.T) {
	for v, program := range containerds(t) {
		for _, file := range []string{"config", "own.d/a.toml"} {
			t.Run(v+"/"+filepath.Base(file), func(t *testing.T) {
				const main = "version = 2\nimports = ['DIR/own.d/*.toml']\noom_score = 1\n"
				r := newReal(t, Containerd, program)
				r.put("config", main)
				r.put("own.d/a.toml", "version = 2\n")
				edit := strings.NewReplacer("oom_score = 1", "oom_score = 2", "DIR", r.dir).Replace(main)
				if file != "config" {
					edit = "version = 2\noom_score = 3\n"
				}
				k, edits := r.keeper(), 0
				k.step = func(step string) {
					if edits == 0 && step == "check" {
						r.put(file, edit)
						edits++
					}
				}
				p, err := k.Apply(context.Background())
				assert.NilError(t, err)
				assert.Assert(t, !p.Empty() && edits == 1)
				_, err = k.Undo(context.Background())
				assert.NilError(t, err)
				assert.Equal(t, r.get(file), edit)
			})
		}
	}
}
