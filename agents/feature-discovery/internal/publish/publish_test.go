package publish_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/agents/feature-discovery/internal/publish"
)

func clock(seconds int64) publish.Clock {
	return func() time.Time { return time.Unix(seconds, 0) }
}

func TestTheFileIsWrittenOnlyWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gfd")
	put := func(now int64, labels map[string]string) string {
		t.Helper()
		f := publish.File{Stamper: publish.Stamper{Now: clock(now)}, Path: path}
		if err := f.Put(t.Context(), labels); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := put(1, map[string]string{"nvidia.com/gpu.count": "8", "a": "b"})
	if want := "a=b\nnvidia.com/gfd.timestamp=1\nnvidia.com/gpu.count=8\n"; first != want {
		t.Errorf("file %q, want %q", first, want)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := put(2, map[string]string{"nvidia.com/gpu.count": "8", "a": "b"}); again != first {
		t.Errorf("the same labels again give %q, want what was there", again)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("a file that is right was written again: %v, %v", fi.Mode(), err)
	}
	if other := put(3, map[string]string{"a": "b"}); other != "a=b\nnvidia.com/gfd.timestamp=3\n" {
		t.Errorf("other labels give %q", other)
	}
	if none := put(4, map[string]string{}); none != "" {
		t.Errorf("no labels give %q, want an empty file", none)
	}
}

func TestTheFilesFolderIsMissing(t *testing.T) {
	f := publish.File{Path: filepath.Join(t.TempDir(), "none", "gfd")}
	if err := f.Put(t.Context(), map[string]string{"a": "b"}); err == nil || !strings.Contains(err.Error(), "is the folder of Node Feature Discovery mounted?") {
		t.Errorf("Put() = %v", err)
	}
}

func TestTextPrintsEachSetOnce(t *testing.T) {
	var out bytes.Buffer
	p := &publish.Text{To: &out}
	for _, value := range []string{"1", "1", "2"} {
		if err := p.Put(t.Context(), map[string]string{"a": value}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "a=1\na=2\n" {
		t.Errorf("printed %q", out.String())
	}
}

// api is the own Node at an API server that this test plays.
type api struct {
	node  object.Node
	fail  error
	calls []string
}

func (a *api) WatchNode(ctx context.Context, deliver func(object.Node)) {
	deliver(a.node)
	<-ctx.Done()
}

func (a *api) ApplyLabels(_ context.Context, labels map[string]string) error {
	a.calls = append(a.calls, "labels")
	a.node.Labels = labels
	return a.fail
}

func (a *api) RemoveCondition(context.Context) error { return nil }

func (a *api) ApplyCondition(_ context.Context, c object.Condition) error {
	a.calls = append(a.calls, "condition "+c.Status+" "+c.LastTransition.UTC().Format(time.TimeOnly))
	return nil
}

func (a *api) RemoveTaint(_ context.Context, t object.Taint) error {
	a.calls = append(a.calls, "taint "+t.Key)
	return nil
}

const mine = "feature-discovery"

func TestNodeIsWrittenWhereItDiffers(t *testing.T) {
	ready := func(status, reason string) *object.Condition {
		return &object.Condition{Type: "GPUReady", Status: status, Reason: reason}
	}
	taint := object.Taint{Key: "outrigger.dev/gpu-not-ready", Effect: "NoSchedule"}
	there := object.Node{
		Labels:     map[string]string{"a": "1", "b": "2", "foreign": "x", publish.Timestamp: "7"},
		Owners:     map[string][]string{"a": {mine}, "b": {mine, "other"}, "foreign": {"other"}, publish.Timestamp: {mine}},
		Conditions: []object.Condition{{Type: "GPUReady", Status: "False", Reason: "DriverNotFound", LastTransition: time.Unix(60, 0)}},
		Taints:     []object.Taint{{Key: "x", Effect: taint.Effect}, {Key: taint.Key, Value: "yes", Effect: taint.Effect}},
	}
	timeless := object.Node{Conditions: []object.Condition{{Type: "GPUReady", Status: "False", Reason: "DriverHangs"}}}
	for name, tc := range map[string]struct {
		node    object.Node
		desired publish.Desired
		calls   string
	}{
		"all is right":               {there, publish.Desired{Labels: map[string]string{"a": "1", "b": "2"}, Ready: ready("False", "DriverNotFound")}, ""},
		"nothing is known":           {there, publish.Desired{}, ""},
		"a value differs":            {there, publish.Desired{Labels: map[string]string{"a": "2", "b": "2"}}, "labels"},
		"a label is missing":         {there, publish.Desired{Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}, "labels"},
		"a label is not desired":     {there, publish.Desired{Labels: map[string]string{"a": "1"}}, "labels"},
		"no label is desired":        {there, publish.Desired{Labels: map[string]string{}}, "labels"},
		"none is there or desired":   {object.Node{Labels: map[string]string{"foreign": "x"}}, publish.Desired{Labels: map[string]string{}}, ""},
		"another wrote the same":     {object.Node{Labels: map[string]string{"c": "x", publish.Timestamp: "1"}}, publish.Desired{Labels: map[string]string{"c": "x"}}, ""},
		"another reason":             {there, publish.Desired{Ready: ready("False", "DriverHangs")}, "condition False 00:01:00"},
		"another status":             {there, publish.Desired{Ready: ready("True", "GPUsReady")}, "condition True 00:16:40,taint outrigger.dev/gpu-not-ready"},
		"a condition for the first":  {object.Node{}, publish.Desired{Ready: ready("True", "GPUsReady")}, "condition True 00:16:40"},
		"a condition without a time": {timeless, publish.Desired{Ready: ready("False", "DriverHangs")}, "condition False 00:16:40"},
		"another's label is yielded": {object.Node{Labels: map[string]string{"foreign": "y"}, Owners: map[string][]string{"foreign": {"other"}}}, publish.Desired{Labels: map[string]string{"foreign": "x"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{node: tc.node}
			n := publish.NewNode(publish.NodeConfig{
				Stamper: publish.Stamper{Now: clock(1000)}, API: a, Manager: mine, Taint: taint, Time: clock(1000), Log: discard(),
				Yields: func(key string) bool { return key == "foreign" },
			})
			if err := n.Once(t.Context(), tc.desired); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(a.calls, ","); got != tc.calls {
				t.Errorf("requests %q, want %q", got, tc.calls)
			}
		})
	}
}

func TestAFailureKeepsNothingElseFromBeingWritten(t *testing.T) {
	a := &api{fail: errors.New("403")}
	n := publish.NewNode(publish.NodeConfig{API: a, Manager: mine, Time: clock(0), Log: discard()})
	err := n.Once(t.Context(), publish.Desired{Labels: map[string]string{"a": "b"}, Ready: &object.Condition{Type: "GPUReady", Status: "False"}})
	if err == nil || strings.Join(a.calls, ",") != "labels,condition False 00:00:00" {
		t.Errorf("Once() = %v after %q", err, a.calls)
	}
}
