package publish_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/pace"
)

var (
	one = map[string]string{"a": "1"}
	two = map[string]string{"b": "2"}
)

// pass lets the time of the bubble pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	pace.Pause(t.Context(), d)
	synctest.Wait()
}

// is checks an Err.
func is(t *testing.T, got error, want string) {
	t.Helper()
	if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
		t.Errorf("Err() = %v, want %q", got, want)
	}
}

func TestAKeeperWaitsAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{fails: 1, with: apierrors.NewTooManyRequests("busy", 30)}
		k := publish.NewKeeper(publish.KeeperConfig{Output: out, Log: discard()})
		agenttest.Run(t, k.Run)
		k.Set(one)
		if puts := out.taken(); len(puts) != 1 {
			t.Errorf("%d tries at once, want 1", len(puts))
		}
		k.Set(two)
		pass(t, 29*time.Second)
		if puts := out.taken(); len(puts) != 0 {
			t.Errorf("put %v, want nothing before the time is over", puts)
		}
		pass(t, 17*time.Second)
		if puts := out.taken(); len(puts) != 1 || !maps.Equal(puts[0], two) {
			t.Errorf("put %v, want %v", puts, two)
		}
	})
}

// output fails a number of times.
type output struct {
	mu    sync.Mutex
	fails int
	// with is the failure, a missing folder if it is nil.
	with error
	puts []map[string]string
}

func (o *output) Put(_ context.Context, labels map[string]string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.puts = append(o.puts, labels)
	if o.fails--; o.fails >= 0 {
		return cmp.Or(o.with, errors.New("the folder is away"))
	}
	return nil
}

// taken returns what was put since the last call, once all has settled.
func (o *output) taken() []map[string]string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.puts
	o.puts = nil
	return all
}

func TestWhatIsNotPublishedYet(t *testing.T) {
	k := publish.NewKeeper(publish.KeeperConfig{})
	is(t, k.Err(), "not been published yet")
	k.Set(one)
	is(t, k.Err(), "not been published yet")
}

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{fails: 2}
		k := publish.NewKeeper(publish.KeeperConfig{Output: out, Every: time.Minute, Log: discard()})
		agenttest.Run(t, k.Run)
		k.Set(nil)
		pass(t, time.Hour)
		if puts := out.taken(); len(puts) > 0 {
			t.Errorf("labels that are not known were put: %v", puts)
		}
		is(t, k.Err(), "")
		k.Set(one)
		if puts := out.taken(); len(puts) != 1 || !maps.Equal(puts[0], one) {
			t.Errorf("put %v, want %v", puts, one)
		}
		is(t, k.Err(), "the folder is away")
		pass(t, 10*time.Second)
		if puts := out.taken(); len(puts) != 2 {
			t.Errorf("%d tries after the first one failed, want 2", len(puts))
		}
		is(t, k.Err(), "")
		pass(t, time.Hour)
		if puts := out.taken(); len(puts) != 60 {
			t.Errorf("%d checks in an hour, want one a minute", len(puts))
		}
		k.Set(two)
		if puts := out.taken(); len(puts) != 1 || !maps.Equal(puts[0], two) {
			t.Errorf("put %v, want %v", puts, two)
		}
	})
}
