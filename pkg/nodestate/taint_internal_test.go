package nodestate

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/kube/apitest"
)

func TestRemoveTaint(t *testing.T) {
	ours := Taint{Key: "outrigger.dev/gpu-not-ready", Effect: "NoSchedule"}
	is := apitest.Taint{Key: ours.Key, Value: "true", Effect: ours.Effect, TimeAdded: "2026-01-02T03:04:05Z"}
	other := apitest.Taint{Key: ours.Key, Effect: "NoExecute"}
	disk, net := apitest.Taint{Key: "disk", Effect: "NoSchedule"}, apitest.Taint{Key: "net", Effect: "NoSchedule"}
	// to is what others make of the list between read and patch.
	to := func(taints ...apitest.Taint) func(*apitest.API) {
		return func(s *apitest.API) {
			s.Before("patch nodes", func() {
				s.Update("drainer", func(n *apitest.Node) { n.Taints = taints })
			})
		}
	}
	for name, tc := range map[string]struct {
		taints, want []apitest.Taint
		others       func(*apitest.API)
		patches      int
	}{
		"the only one":                      {taints: []apitest.Taint{is}, patches: 1},
		"one of three":                      {taints: []apitest.Taint{disk, is, net}, want: []apitest.Taint{disk, net}, patches: 1},
		"none there":                        {},
		"none of that effect":               {taints: []apitest.Taint{other}, want: []apitest.Taint{other}},
		"while one before it goes":          {taints: []apitest.Taint{disk, is, net}, others: to(is, net), want: []apitest.Taint{net}, patches: 2},
		"while one before it comes":         {taints: []apitest.Taint{is}, others: to(disk, is), want: []apitest.Taint{disk}, patches: 2},
		"while one after it comes":          {taints: []apitest.Taint{is}, others: to(is, disk), want: []apitest.Taint{disk}, patches: 1},
		"while it is removed, others stay":  {taints: []apitest.Taint{disk, is}, others: to(disk), want: []apitest.Taint{disk}, patches: 1},
		"while the list is removed":         {taints: []apitest.Taint{is}, others: to(), patches: 1},
		"while it is given another value":   {taints: []apitest.Taint{is}, others: to(apitest.Taint{Key: ours.Key, Effect: ours.Effect}), patches: 2},
		"while another takes its place":     {taints: []apitest.Taint{is, disk}, others: to(net), want: []apitest.Taint{net}, patches: 1},
		"while one of another effect comes": {taints: []apitest.Taint{is}, others: to(other, is), want: []apitest.Taint{other}, patches: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, map[string]string{"zone": "a"})
			s.Update("kubelet", func(n *apitest.Node) { n.Taints = tc.taints })
			if tc.others != nil {
				tc.others(s)
			}
			if _, err := client(t, s).removeTaint(t.Context(), ours); err != nil {
				t.Fatal(err)
			}
			want(t, tc.want, s.Node().Taints)
			want(t, map[string]string{"zone": "a"}, s.Node().Labels)
			if n := s.Requests()["patch nodes"]; n != tc.patches {
				t.Errorf("%d patches, want %d", n, tc.patches)
			}
		})
	}
}

func TestRemoveTaintGivesUp(t *testing.T) {
	ours := apitest.Taint{Key: "not-ready", Effect: "NoSchedule"}
	remove := func(s *apitest.API) error {
		s.Update("kubelet", func(n *apitest.Node) { n.Taints = []apitest.Taint{ours} })
		return second(client(t, s).removeTaint(t.Context(), Taint{Key: ours.Key, Effect: ours.Effect}))
	}
	t.Run("at once, when the change is rejected and not its test", func(t *testing.T) {
		s := apitest.New(t, nil)
		const message = "ValidatingAdmissionPolicy 'own-taint' denied request: not yours"
		s.Answer("patch nodes", http.StatusUnprocessableEntity, message)
		err := remove(s)
		if err == nil || !strings.Contains(err.Error(), "remove taint not-ready:NoSchedule from node "+s.Name) ||
			!strings.Contains(err.Error(), message) {
			t.Errorf("error %v", err)
		}
		if n := s.Requests()["patch nodes"]; n != 1 {
			t.Errorf("%d patches, want 1", n)
		}
	})
	t.Run("when others never rest", func(t *testing.T) {
		s := apitest.New(t, nil)
		var another func()
		another = func() {
			s.Update("drainer", func(n *apitest.Node) {
				n.Taints = slices.Insert(n.Taints, 0, apitest.Taint{Key: fmt.Sprintf("x-%d", len(n.Taints)), Effect: "NoExecute"})
			})
			s.Before("patch nodes", another)
		}
		s.Before("patch nodes", another)
		if err := remove(s); err == nil || !strings.Contains(err.Error(), "the node changed at each of 5 tries") {
			t.Errorf("error %v", err)
		}
		if n := s.Node().Taints; len(n) != 6 || n[5] != ours {
			t.Errorf("taints are %v", n)
		}
	})
	t.Run("not at a conflict that passes", func(t *testing.T) {
		s := apitest.New(t, nil)
		s.Answer("patch nodes", http.StatusConflict, "another was faster")
		s.Before("patch nodes", func() { s.Before("get nodes", func() { s.Answer("patch nodes", 0, "") }) })
		if err := remove(s); err != nil {
			t.Error(err)
		}
		want(t, 0, len(s.Node().Taints))
	})
}
