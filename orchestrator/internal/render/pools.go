package render

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// umbrella is the name of the chart outrigger, and of the stage with its own objects.
const umbrella = "outrigger"

// Stages returns the stages of the nodes outside of pools and, after each of them, the same stage
// of each pool, with their validations. The error names the path of a value that is not accepted,
// or the pools that overlap.
//
// The stage of a chart that needs no other chart, such as feature discovery, is for all nodes,
// because pools select nodes by the labels that it writes.
func Stages(cfg Config) ([]model.Stage, error) {
	stages, err := allStages(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.ByHelm {
		for i := range stages {
			stages[i].Objects = slices.DeleteFunc(stages[i].Objects, func(o *unstructured.Unstructured) bool { return charts.InRelease(o.GetKind()) })
		}
	}
	return stages, unite(stages)
}

// allStages returns the stages with the objects of all kinds.
func allStages(cfg Config) ([]model.Stage, error) {
	list, listErr := pools.Parse(cfg.Values)
	cfg.Nodes = cfg.Kinds.In("")
	base, err := renderStages(cfg)
	known, is := errors.AsType[charts.Problems](err)
	malformed := slices.ContainsFunc(known, func(p charts.Problem) bool { return strings.HasPrefix(p.Path, pools.Key) })
	if malformed || err != nil && !is || listErr == nil && len(list) == 0 {
		return base, err
	}
	placed, shared, loadErr := charted()
	errs := []error{err, listErr, loadErr}
	if err == nil {
		base, err = placed.render(cfg, nil, list)
		errs = append(errs, err)
	}
	var pooled []model.Stage
	for i, p := range list {
		stages, err := poolStages(cfg, placed, shared, list[:i], p)
		if problems, is := errors.AsType[charts.Problems](err); !is && err != nil {
			errs = append(errs, fmt.Errorf("%s, pool %s: %w", pools.Key, p.Name, err))
		} else if problems = problems.InPool(i, known); len(problems) > 0 {
			errs = append(errs, problems)
		}
		pooled = append(pooled, stages...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return interleave(base, pooled), nil
}

// placedCharts has the default affinities of the charts that every pool has, by the charts' keys. It is nil for a chart
// without an affinity in its values.
type placedCharts map[string]map[string]any

// charted separates the charts that every pool has from the charts that are for all nodes. The result
// shared has the keys of the charts for all nodes, by the name of the chart.
func charted() (placed placedCharts, shared map[string]string, err error) {
	all, err := charts.Load(umbrella)
	if err != nil {
		return nil, nil, err
	}
	placed, shared = placedCharts{}, map[string]string{umbrella: ""}
	for _, c := range all.Dependencies() {
		switch key := c.Metadata.Annotations[charts.KeyAnnotation]; {
		case c.Metadata.Annotations[charts.AllNodesAnnotation] == "true":
			shared[c.Name()] = key
		case key != "":
			placed[key], _ = c.Values["affinity"].(map[string]any)
		}
	}
	return placed, shared, nil
}

// render renders the stages, with the pods of all placed charts on the nodes that a selector selects, and that are not in
// the other pools.
func (c placedCharts) render(cfg Config, selector map[string]string, others []pools.Pool) ([]model.Stage, error) {
	cfg.Values = runtime.DeepCopyJSON(cfg.Values)
	if cfg.Values == nil {
		cfg.Values = map[string]any{}
	}
	for key, byDefault := range c {
		own := child(cfg.Values, key)
		for label, value := range selector {
			child(own, "nodeSelector")[label] = value
		}
		if byDefault == nil {
			continue
		}
		given, _ := own["affinity"].(map[string]any)
		affinity, err := pools.Exclude(util.CoalesceTables(given, byDefault), others)
		if err != nil {
			return nil, err
		}
		own["affinity"] = affinity
	}
	return renderStages(cfg)
}

// child returns the map at a key, and adds it if it is absent.
func child(values map[string]any, key string) map[string]any {
	own, _ := values[key].(map[string]any)
	if own == nil {
		own = map[string]any{}
		values[key] = own
	}
	return own
}

// poolStages returns the stages of a pool: the charts that every pool has, on the nodes of p,
// without the nodes of earlier pools.
func poolStages(cfg Config, placed placedCharts, shared map[string]string, before []pools.Pool, p pools.Pool) ([]model.Stage, error) {
	for _, key := range shared {
		if _, ok := p.Values[key]; ok && key != "" {
			return nil, fmt.Errorf("values.%s: it must be the same on all nodes, because pools select nodes by the labels that follow from it: set it outside of the pool", key)
		}
	}
	cfg.Name, cfg.Nodes = cfg.Name+"-"+p.Name, cfg.Kinds.In(p.Name)
	cfg.Values = util.CoalesceTables(runtime.DeepCopyJSON(p.Values), runtime.DeepCopyJSON(cfg.Values))
	stages, err := placed.render(cfg, p.NodeSelector, before)
	if err != nil {
		return nil, err
	}
	stages = slices.DeleteFunc(stages, func(st model.Stage) bool {
		_, everywhere := shared[st.Name]
		return everywhere || len(st.Objects) == 0
	})
	for i := range stages {
		st := &stages[i]
		st.Name, st.Pool = st.Name+"/"+p.Name, p.Name
		for j := range st.Validations {
			st.Validations[j].Name += "-" + p.Name
		}
	}
	return stages, nil
}

// unite removes the objects that an earlier stage has as well, such as the RuntimeClass nvidia of a pool. It also removes
// the objects with model.LabelOneForAll if an earlier stage of the same chart has them. It returns an error for each
// object whose content differs from the object of the earlier stage.
func unite(stages []model.Stage) error {
	type place struct {
		stage  string
		object *unstructured.Unstructured
	}
	first, oneForAll := map[model.Ref]place{}, map[string]string{}
	var errs []error
	for i := range stages {
		name, chart := stages[i].Name, stages[i].Chart()
		stages[i].Objects = slices.DeleteFunc(stages[i].Objects, func(o *unstructured.Unstructured) bool {
			if o.GetLabels()[model.LabelOneForAll] == "true" {
				oneForAll[chart] = cmp.Or(oneForAll[chart], name)
				if oneForAll[chart] != name {
					return true
				}
			}
			ref := model.RefOf(o)
			other, there := first[ref]
			switch {
			case !there:
				first[ref] = place{name, o}
			case !equal(o, other.object):
				errs = append(errs, fmt.Errorf("%s of the stage %s: the stage %s has the same object with other content: "+
					"set another name in the values of one of the stages, or set the values on which it depends outside of the pools", ref, name, other.stage))
			}
			return there
		})
	}
	return errors.Join(errs...)
}

// equal reports whether two objects differ only in their labels, which name the release.
func equal(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	a.SetLabels(nil)
	b.SetLabels(nil)
	return model.Hash(a) == model.Hash(b)
}

// interleave inserts each stage of a pool after the same stage of the other nodes. Stages that only
// pools have are last, in the order of the pools.
func interleave(base, pooled []model.Stage) []model.Stage {
	at := func(st model.Stage) int {
		i := slices.IndexFunc(base, func(b model.Stage) bool { return b.Name == st.Chart() })
		if i < 0 {
			return len(base)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(slices.Concat(base, pooled)), func(a, b model.Stage) int { return at(a) - at(b) })
}
