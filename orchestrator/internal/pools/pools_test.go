package pools_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/pools/poolstest"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		// err lists parts of the error, none if there is no error.
		err []string
	}{
		"no pools":              {values: "devicePlugin: {enabled: true}"},
		"an empty list":         {values: "pools: []"},
		"a pool":                {values: "pools: [{name: l4, nodeSelector: {gpu: l4}, values: {devicePlugin: {migStrategy: none}}}]"},
		"a pool without values": {values: "pools: [{name: l4, nodeSelector: {gpu: l4}}]"},
		"no list":               {"pools: {name: a}", []string{"pools: "}},
		"no map":                {"pools: [a]", []string{"pools: "}},
		"a name twice":          {"pools: [{name: a, nodeSelector: {gpu: l4}}, {name: a, nodeSelector: {gpu: h100}}]", []string{"pools[1].name: a is the name of another pool"}},
		"an invalid label":      {"pools: [{name: a, nodeSelector: {gpu: -x-}}]", []string{"pools[0].nodeSelector"}},
		"pools in a pool":       {"pools: [{name: a, nodeSelector: {gpu: l4}, values: {pools: []}}]", []string{"pools[0].values.pools"}},
		"all errors at once": {
			"pools: [{name: a, nodeSelector: {gpu: -x-}}, {name: a, nodeSelector: {gpu: l4}}]", []string{"pools[0].nodeSelector", "pools[1].name"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pools.Parse(parse(t, tc.values))
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("Parse() = %v", err)
			}
			for _, part := range tc.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Parse() = %v, want %q in it", err, part)
				}
			}
		})
	}
}

// pool returns a pool as the values have it.
func pool(name string, labels map[string]string) map[string]any {
	selector := map[string]any{}
	for key, value := range labels {
		selector[key] = value
	}
	return map[string]any{"name": name, "nodeSelector": selector}
}

func TestOverlaps(t *testing.T) {
	type labels = map[string]string
	for name, tc := range map[string]struct {
		a, b labels
		node labels
		// always says that Parse rejects them whatever the nodes are, and selecting names the pools that select the node.
		always    bool
		selecting []string
	}{
		"different values of a label":             {a: labels{"gpu": "l4"}, b: labels{"gpu": "h100"}, node: labels{"gpu": "l4"}, selecting: []string{"a"}},
		"different labels, and the node has one":  {a: labels{"gpu": "l4"}, b: labels{"zone": "edge"}, node: labels{"zone": "edge"}, selecting: []string{"b"}},
		"different labels, and the node has both": {a: labels{"gpu": "l4"}, b: labels{"zone": "edge"}, node: labels{"gpu": "l4", "zone": "edge"}, selecting: []string{"a", "b"}},
		"equal selectors":                         {a: labels{"gpu": "l4"}, b: labels{"gpu": "l4"}, always: true},
		"one in the other":                        {a: labels{"gpu": "l4"}, b: labels{"gpu": "l4", "zone": "edge"}, always: true},
		"the other in one":                        {a: labels{"gpu": "l4", "zone": "edge"}, b: labels{"gpu": "l4"}, always: true},
		"a label is missing":                      {a: labels{"gpu": ""}, b: labels{"zone": ""}, node: labels{"gpu": ""}, selecting: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := pools.Parse(map[string]any{"pools": []any{pool("a", tc.a), pool("b", tc.b)}})
			if (err != nil) != tc.always || err != nil && !strings.Contains(err.Error(), "pools a and b overlap") {
				t.Errorf("Parse() = %v", err)
			}
			if got := pools.Selecting(list, tc.node); !slices.Equal(got, tc.selecting) {
				t.Errorf("Selecting() = %q, want %q", got, tc.selecting)
			}
		})
	}
}

// TestExclude compares the affinity with the pools, for nodes with random labels.
func TestExclude(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(most int) map[string]string {
		labels := map[string]string{}
		for range 1 + rnd.IntN(most) {
			labels[string(rune('a'+rnd.IntN(3)))] = string(rune('0' + rnd.IntN(2)))
		}
		return labels
	}
	given := parse(t, `nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
		{matchExpressions: [{key: a, operator: In, values: ["1"]}]}, {matchExpressions: [{key: b, operator: NotIn, values: ["0"]}]}]}}`)
	for range 2000 {
		var list []pools.Pool
		for range rnd.IntN(4) {
			list = append(list, pools.Pool{NodeSelector: random(2)})
		}
		affinity := given
		if rnd.IntN(2) == 0 {
			affinity = nil
		}
		got, err := pools.Exclude(affinity, list)
		if err != nil {
			t.Fatal(err)
		}
		node := random(3)
		want := poolstest.Allows(t, affinity, node)
		for _, p := range list {
			want = want && !p.Matches(node)
		}
		if poolstest.Allows(t, got, node) != want {
			t.Fatalf("with the pools %v, the affinity %v allows %v: %t, want %t", list, got, node, !want, want)
		}
	}
}

func TestExcludeRefusesAProductThatIsTooLarge(t *testing.T) {
	var list []pools.Pool
	for range 8 {
		list = append(list, pools.Pool{NodeSelector: map[string]string{"a": "1", "b": "1"}})
	}
	if _, err := pools.Exclude(nil, list); err == nil || !strings.Contains(err.Error(), "use one label for each pool") {
		t.Errorf("Exclude() = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("pools: [{name: l4, nodeSelector: {gpu: l4}, values: {a: 1}}]")
	f.Fuzz(func(t *testing.T, text string) {
		values := map[string]any{}
		if yaml.Unmarshal([]byte(text), &values) != nil {
			return
		}
		list, err := pools.Parse(values)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, p := range list {
			if names[p.Name] {
				t.Errorf("two pools with the name %q are accepted", p.Name)
			}
			names[p.Name] = true
		}
	})
}
