package controller

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/model"
)

// TestAddExtra makes passes at different times. The values are checked if the policy changes. The objects of NVIDIA's GPU
// Operator are listed if the policy changes, and each minute while there are some.
func TestAddExtra(t *testing.T) {
	cl := clustertest.New(t)
	var ignored []string
	c := &Controller{cfg: Config{Client: cl.Client, Log: slog.New(slog.DiscardHandler), Ignored: func(model.Policy, string) []string { return ignored }}}
	var s model.Status
	start := time.Now()
	pass := func(key string, at time.Duration) time.Duration {
		c.rendered.key = key
		return c.addExtra(t.Context(), model.Policy{}, &s, start.Add(at))
	}
	check := func(when, wantIgnored, wantOther string) {
		t.Helper()
		for kind, want := range map[string]string{model.ConditionValuesIgnored: wantIgnored, model.ConditionOtherOperator: wantOther} {
			got := ""
			if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("%s: %s is %q, want %q", when, kind, got, want)
			}
		}
	}
	if in := pass("1", 0); in != 0 {
		t.Errorf("without objects of NVIDIA, the next call is in %v", in)
	}
	check("nothing to say", "", "")
	ignored = []string{"psp: remove it", "x: remove it"}
	cl.Create(nvidiaCRD("nvidiadrivers", "NVIDIADriver"))
	driver := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": map[string]any{"name": "default"}}}
	cl.Create(driver)
	pass("1", time.Hour)
	check("the policy is the same", "", "")
	if in := pass("2", time.Hour); in != otherEvery {
		t.Errorf("the next call is in %v, want %v", in, otherEvery)
	}
	const values = "True WithoutEffect psp: remove it. x: remove it"
	other := "True ObjectsFound NVIDIA's GPU Operator has objects in this cluster: NVIDIADriver default (group nvidia.com)"
	check("the policy has changed", values, other)
	cl.Delete(model.RefOf(driver))
	pass("2", time.Hour+otherEvery/2)
	check("half a minute later", values, other)
	if in := pass("2", time.Hour+otherEvery); in != 0 {
		t.Errorf("the next call is in %v, want none", in)
	}
	check("a minute later", values, "")
}

// nvidiaCRD returns the CRD of a kind of NVIDIA's GPU Operator, without a schema.
func nvidiaCRD(plural, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".nvidia.com"},
		"spec": map[string]any{
			"group": "nvidia.com", "scope": "Cluster", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
