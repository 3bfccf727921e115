package podload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/scenario"
	"outrigger.dev/pkg/text"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/state"
)

// Prefix is the prefix of the annotations of pods. The rest is "utilization", "memory", or a name of
// state.Activities.
const Prefix = "outrigger.dev/sim."

const (
	utilization = "utilization"
	memory      = "memory"
)

// problem is an annotation that has no effect.
type problem struct{ annotation, cause string }

// wish is the content of a pod's annotations.
type wish struct {
	load.Use
	// utilization is set if the annotations set Utilization, and any if they set anything.
	utilization, any bool
	problems         []problem
}

// parse reads the annotations of a pod. It ignores annotations without the prefix.
func parse(annotations map[string]string) wish {
	var w wish
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, Prefix)
		if !ours {
			continue
		}
		if err := w.set(name, annotations[key]); err != nil {
			w.problems = append(w.problems, problem{key, text.OneLine(err)})
			continue
		}
		w.any = true
	}
	return w
}

func (w *wish) set(name, value string) error {
	if name == memory {
		bytes, err := scenario.ParseMemory(value)
		w.Memory = bytes
		return err
	}
	fields := state.Activities()
	if name != utilization && !slices.Contains(fields, name) {
		return unknown(name, append([]string{utilization, memory}, fields...))
	}
	r, err := scenario.ParseRange(value, scenario.Percent)
	switch {
	case err != nil:
		return err
	case name == utilization:
		w.Utilization, w.utilization = r, true
	case w.Fields == nil:
		w.Fields = map[string]scenario.Range{name: r}
	default:
		w.Fields[name] = r
	}
	return nil
}

func unknown(name string, known []string) error {
	if best := text.Nearest(name, known); best != "" {
		return fmt.Errorf("unknown annotation: did you mean %s%s?", Prefix, best)
	}
	return fmt.Errorf("unknown annotation: the part after %q must be one of %s", Prefix, strings.Join(known, ", "))
}
