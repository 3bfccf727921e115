package pools_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/model"
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

func TestOverlaps(t *testing.T) {
	type labels = map[string]string
	node := func(name string, l labels) *model.Node { return &model.Node{Name: name, Labels: l} }
	for name, tc := range map[string]struct {
		a, b  labels
		nodes []*model.Node
		// always says that Refuse refuses them whatever the nodes are, and both are the nodes that
		// both select.
		always bool
		both   []string
	}{
		"different values of a label": {a: labels{"gpu": "l4"}, b: labels{"gpu": "h100"}, nodes: []*model.Node{node("n", labels{"gpu": "l4"})}},
		"different labels, and no node has both": {
			a: labels{"gpu": "l4"}, b: labels{"zone": "edge"}, nodes: []*model.Node{node("n", labels{"gpu": "l4"}), node("m", labels{"zone": "edge"})},
		},
		"different labels, and nodes have both": {
			a: labels{"gpu": "l4"}, b: labels{"zone": "edge"},
			nodes: []*model.Node{node("n2", labels{"gpu": "l4", "zone": "edge"}), node("n1", labels{"gpu": "l4", "zone": "edge"}), node("m", labels{"zone": "edge"})},
			both:  []string{"n1", "n2"},
		},
		"equal selectors":    {a: labels{"gpu": "l4"}, b: labels{"gpu": "l4"}, always: true},
		"one in the other":   {a: labels{"gpu": "l4"}, b: labels{"gpu": "l4", "zone": "edge"}, always: true},
		"the other in one":   {a: labels{"gpu": "l4", "zone": "edge"}, b: labels{"gpu": "l4"}, always: true},
		"a label is missing": {a: labels{"gpu": ""}, b: labels{"zone": ""}, nodes: []*model.Node{node("n", labels{"gpu": ""})}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pools.Pool{Name: "a", NodeSelector: tc.a}, pools.Pool{Name: "b", NodeSelector: tc.b}
			err := pools.Refuse([]pools.Pool{a, b})
			if (err != nil) != tc.always || err != nil && !strings.Contains(err.Error(), "pools a and b overlap") {
				t.Errorf("Refuse() = %v", err)
			}
			want := map[string][]string{}
			for _, n := range tc.both {
				want[n] = []string{"a", "b"}
			}
			if got := pools.Overlaps([]pools.Pool{a, b}, tc.nodes); !reflect.DeepEqual(got, want) {
				t.Errorf("Overlaps() = %q, want %q", got, want)
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
