package apply

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu/mig"
)

// refusals collects the reasons why a request is rejected. It names all GPUs with the same reason
// together, because often all GPUs of a node have it.
type refusals struct{ list []refusal }

type refusal struct {
	gpus []mig.GPU
	err  error
}

// add adds the reason for a GPU. It ignores nil.
func (r *refusals) add(g mig.GPU, err error) {
	if err == nil {
		return
	}
	i := slices.IndexFunc(r.list, func(o refusal) bool { return o.err.Error() == err.Error() })
	if i < 0 {
		r.list = append(r.list, refusal{err: err})
		i = len(r.list) - 1
	}
	r.list[i].gpus = append(r.list[i].gpus, g)
}

// err returns an error that wraps each reason once, or nil.
func (r *refusals) err() error {
	var errs []error
	for _, o := range r.list {
		which := fmt.Sprintf("GPU %d (%s)", o.gpus[0].Index, o.gpus[0].UUID)
		if len(o.gpus) > 1 {
			var indices []string
			for _, g := range o.gpus {
				indices = append(indices, strconv.Itoa(g.Index))
			}
			which = "GPUs " + strings.Join(indices, ", ")
		}
		errs = append(errs, fmt.Errorf("plan MIG layout of %s: %w", which, o.err))
	}
	return errors.Join(errs...)
}
