package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// Stages returns the stages of the nodes outside of pools and, after each of them, the same stage
// of each pool, with their validations. The error names the path of a value that is not accepted,
// or the pools that overlap.
//
// The stage of a chart that needs no other chart, such as feature discovery, is for all nodes,
// because pools select nodes by the labels that it writes.
func Stages(cfg Config) ([]model.Stage, error) {
	stages, err := allStages(cfg)
	if cfg.ByHelm {
		for i := range stages {
			stages[i].Objects = slices.DeleteFunc(stages[i].Objects, func(o *unstructured.Unstructured) bool { return charts.InRelease(o.GetKind()) })
		}
	}
	return stages, err
}

// allStages returns the stages with the objects of all kinds.
func allStages(cfg Config) ([]model.Stage, error) {
	cfg.Nodes = pools.NodesOf("", cfg.Kinds)
	base, err := renderStages(cfg)
	if err != nil {
		return nil, errors.Join(err, alsoInPools(cfg, err))
	}
	list, err := pools.Parse(cfg.Values)
	if err == nil {
		err = pools.Refuse(list)
	}
	if err != nil || len(list) == 0 {
		return base, err
	}
	placed, shared, err := split(base)
	if err != nil {
		return nil, err
	}
	others := cfg
	if others.Values, err = placed.excludePools(cfg.Values, list); err != nil {
		return nil, err
	}
	if base, err = renderStages(others); err != nil {
		return nil, err
	}
	var all []model.Stage
	var errs []error
	for i, p := range list {
		stages, err := poolStages(cfg, placed, shared, list[:i], p)
		if problems, is := errors.AsType[charts.Problems](err); is {
			errs = append(errs, problems.InPool(i, nil))
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s, pool %s: %w", pools.Key, p.Name, err))
		}
		for _, st := range stages {
			errs = append(errs, addToPool(&st, p, base))
			dropShared(&st, slices.Concat(base, all))
			st.PoolOrder = i
			all = append(all, st)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return interleave(base, all), nil
}

// alsoInPools returns the problems of pools if the values of all nodes have problems already.
func alsoInPools(cfg Config, err error) error {
	var known charts.Problems
	if !errors.As(err, &known) || slices.ContainsFunc(known, func(p charts.Problem) bool { return strings.HasPrefix(p.Path, pools.Key) }) {
		return nil
	}
	list, err := pools.Parse(cfg.Values)
	if err != nil {
		return err
	}
	errs := []error{pools.Refuse(list)}
	for i, p := range list {
		of := cfg
		of.Values, of.Nodes = util.CoalesceTables(runtime.DeepCopyJSON(p.Values), runtime.DeepCopyJSON(cfg.Values)), pools.NodesOf(p.Name, cfg.Kinds)
		_, err := renderStages(of)
		if problems, is := errors.AsType[charts.Problems](err); is {
			if problems = problems.InPool(i, known); len(problems) > 0 {
				errs = append(errs, problems)
			}
		}
	}
	return errors.Join(errs...)
}

// placedCharts has the default affinities of the charts that every pool has, by the charts' keys. It is nil for a chart
// without an affinity in its values.
type placedCharts map[string]map[string]any

// split separates the charts that every pool has from the charts that are for all nodes. The result
// shared has the keys of the charts for all nodes, by the name of the chart.
func split(stages []model.Stage) (placed placedCharts, shared map[string]string, err error) {
	all, err := charts.Load("outrigger")
	if err != nil {
		return nil, nil, err
	}
	placed, shared = placedCharts{}, map[string]string{}
	for _, c := range all.Dependencies() { // also the charts that only a pool enables
		if key := c.Metadata.Annotations[charts.KeyAnnotation]; c.Metadata.Annotations[charts.AllNodesAnnotation] == "true" {
			shared[c.Name()] = key
		}
	}
	for _, st := range stages {
		c, err := charts.Load(st.Name)
		if err != nil {
			return nil, nil, err
		}
		key := c.Metadata.Annotations[charts.KeyAnnotation]
		if key == "" || c.Metadata.Annotations[charts.AllNodesAnnotation] == "true" {
			shared[st.Name] = key
			continue
		}
		placed[key], _ = c.Values["affinity"].(map[string]any)
	}
	return placed, shared, nil
}

// excludePools returns values that keep the pods of all placed charts off the nodes of pools.
func (c placedCharts) excludePools(values map[string]any, list []pools.Pool) (map[string]any, error) {
	values = runtime.DeepCopyJSON(values)
	if values == nil {
		values = map[string]any{}
	}
	for key, byDefault := range c {
		if byDefault == nil {
			continue
		}
		own := child(values, key)
		given, _ := own["affinity"].(map[string]any)
		affinity, err := pools.Exclude(util.CoalesceTables(runtime.DeepCopyJSON(given), byDefault), list)
		if err != nil {
			return nil, err
		}
		own["affinity"] = affinity
	}
	return values, nil
}

// child replaces the map at a key by a copy, and returns the copy.
func child(values map[string]any, key string) map[string]any {
	before, _ := values[key].(map[string]any)
	own := maps.Clone(before)
	if own == nil {
		own = map[string]any{}
	}
	values[key] = own
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
	values := util.CoalesceTables(runtime.DeepCopyJSON(p.Values), runtime.DeepCopyJSON(cfg.Values))
	values, err := placed.excludePools(values, before)
	if err != nil {
		return nil, err
	}
	for key := range placed {
		where := child(child(values, key), "nodeSelector")
		for label, value := range p.NodeSelector {
			where[label] = value
		}
	}
	cfg.Name, cfg.Values, cfg.Nodes = cfg.Name+"-"+p.Name, values, pools.NodesOf(p.Name, cfg.Kinds)
	stages, err := renderStages(cfg)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(stages, func(st model.Stage) bool {
		_, everywhere := shared[st.Name]
		return everywhere || len(st.Objects) == 0
	}), nil
}

// addToPool makes st a stage of the pool. It removes objects that the base stages have as well,
// such as the RuntimeClass nvidia, and returns an error if their content differs.
func addToPool(st *model.Stage, p pools.Pool, base []model.Stage) error {
	st.Name, st.Pool, st.NodeSelector = st.Name+"/"+p.Name, p.Name, p.NodeSelector
	var errs []error
	st.Objects = slices.DeleteFunc(st.Objects, func(o *unstructured.Unstructured) bool {
		other := findIn(base, model.RefOf(o))
		if other == nil {
			return false
		}
		if !equal(o, other) {
			errs = append(errs, fmt.Errorf("%s, pool %s: %s would differ from the object for the other nodes, but has the same name: "+
				"set the values on which it depends outside of the pool", pools.Key, p.Name, model.RefOf(o)))
		}
		return true
	})
	for i := range st.Validations {
		st.Validations[i].Name += "-" + p.Name
	}
	return errors.Join(errs...)
}

// dropShared removes the objects with model.LabelOneForAll if an earlier stage of the same chart
// has them.
func dropShared(st *model.Stage, before []model.Stage) {
	oneForAll := func(o *unstructured.Unstructured) bool { return o.GetLabels()[model.LabelOneForAll] == "true" }
	if slices.ContainsFunc(before, func(b model.Stage) bool {
		return b.Chart() == st.Chart() && slices.ContainsFunc(b.Objects, oneForAll)
	}) {
		st.Objects = slices.DeleteFunc(st.Objects, oneForAll)
	}
}

func findIn(stages []model.Stage, ref model.Ref) *unstructured.Unstructured {
	for _, st := range stages {
		for _, o := range st.Objects {
			if model.RefOf(o) == ref {
				return o
			}
		}
	}
	return nil
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
	var all []model.Stage
	for _, st := range base {
		all = append(all, st)
		pooled = slices.DeleteFunc(pooled, func(p model.Stage) bool {
			behind := p.Chart() == st.Name
			if behind {
				all = append(all, p)
			}
			return behind
		})
	}
	return append(all, pooled...)
}
