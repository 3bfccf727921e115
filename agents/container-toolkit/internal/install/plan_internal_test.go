package install

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	const now, old, older = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"
	for name, c := range map[string]struct {
		state state
		want  []step
		due   time.Duration
	}{
		"nothing is installed":     {state{}, []step{{build, now}, {flip, now}}, 0},
		"nothing is in the folder": {state{empty: true}, []step{{claim, ""}, {build, now}, {flip, now}}, 0},
		"all is as it should be": {
			state{current: now, versions: []version{{id: now}}}, nil, 0,
		},
		"an older version is installed": {
			state{current: old, versions: []version{{id: old, idle: time.Hour}}},
			[]step{{build, now}, {release, old}, {flip, now}},
			0,
		},
		"the version is there and was never shown": {
			state{versions: []version{{id: now}}}, []step{{flip, now}}, 0,
		},
		"going back to a version that is still there": {
			state{current: old, versions: []version{{id: now, idle: time.Second}, {id: old}}}, []step{{release, old}, {flip, now}}, 0,
		},
		"files of the version are damaged": {
			state{current: now, versions: []version{{id: now}}, damaged: []string{"nvidia-ctk"}}, []step{{mend, "nvidia-ctk"}}, 0,
		},
		"damaged files are mended before the link is flipped": {
			state{versions: []version{{id: now}}, damaged: []string{"nvidia-ctk"}}, []step{{mend, "nvidia-ctk"}, {flip, now}}, 0,
		},
		"a version was replaced a moment ago": {
			state{current: now, versions: []version{{id: now}, {id: old, idle: 10 * time.Second}}}, nil, Grace - 10*time.Second,
		},
		"versions were replaced long ago": {
			state{current: now, versions: []version{{id: now}, {id: old, idle: Grace}, {id: older, idle: time.Hour}}},
			[]step{{retire, old}, {retire, older}},
			time.Second,
		},
		"a killed process left something": {
			state{current: now, versions: []version{{id: now}}, leftovers: []string{"new-x"}}, []step{{discard, "new-x"}}, 0,
		},
		"another program has installed its tools": {
			state{foreign: true}, []step{{build, now}, {flip, now}, {setAside, ""}}, 0,
		},
		"killed between the exchange of the link and keeping those": {
			state{current: now, versions: []version{{id: now}}, displaced: true}, []step{{setAside, ""}}, 0,
		},
		"another program has removed the link": {
			state{versions: []version{{id: now}}}, []step{{flip, now}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, plan(now, c.state), cmp.AllowUnexported(step{})); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			if got := due(now, c.state); len(c.want) == 0 && got != c.due {
				t.Errorf("due in %v, want %v", got, c.due)
			}
		})
	}
}
