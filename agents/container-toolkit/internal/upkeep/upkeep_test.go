package upkeep_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/pace"
)

var errTest = errors.New("no space")

func TestStatus(t *testing.T) {
	var got []string
	s := upkeep.NewStatus(slog.New(slog.DiscardHandler), func(err error) {
		if err == nil {
			got = append(got, "ready")
			return
		}
		got = append(got, strings.ReplaceAll(err.Error(), "\n", "; "))
	}, upkeep.Tools, upkeep.Specs)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "tools: not done yet") {
		t.Errorf("at the start: %v", err)
	}
	s.Set(upkeep.Tools, nil)
	s.Set(upkeep.Tools, nil)
	s.Set(upkeep.Specs, errTest)
	s.Set(upkeep.Specs, errTest)
	s.Set(upkeep.Specs, nil)
	s.Set(upkeep.Engine, errTest) // no part of this agent
	s.Set(upkeep.Tools, errTest)
	want := []string{"cdi: not done yet", "cdi: no space", "ready", "tools: no space"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

// keeper runs a Keeper of a file until the test ends.
func keeper(t *testing.T, put func() (bool, time.Duration, error), watched func() []string) *upkeep.Status {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := upkeep.NewStatus(log, func(error) {}, upkeep.Tools)
	k := upkeep.NewKeeper(upkeep.Keeping{
		Part: upkeep.Tools, Watched: watched, Status: s, Log: log,
		Put: func(context.Context) (bool, time.Duration, error) { return put() },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestKeeperRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		s := keeper(t, func() (bool, time.Duration, error) {
			if calls.Add(1) < 3 {
				return false, 0, errTest
			}
			return false, 0, nil
		}, func() []string { return nil })
		synctest.Wait()
		if err := s.Err(); err == nil {
			t.Error("ready after an error")
		}
		pace.Pause(t.Context(), time.Minute)
		if err := s.Err(); err != nil || calls.Load() != 3 {
			t.Errorf("%v after %d calls", err, calls.Load())
		}
	})
}

func TestKeeperComesBackWhenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		keeper(t, func() (bool, time.Duration, error) {
			if calls.Add(1) == 1 {
				return true, time.Minute, nil
			}
			return false, 0, nil
		}, func() []string { return nil })
		pace.Pause(t.Context(), 59*time.Second)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls in the first minute, want 1", n)
		}
		pace.Pause(t.Context(), time.Hour)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls in an hour, want 2", n)
		}
	})
}

// A folder that was removed and made again is watched again.
func TestKeeperFollowsWhatItMakes(t *testing.T) {
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "a"), filepath.Join(dir, "a/b")
	s := keeper(t, func() (bool, time.Duration, error) {
		if _, err := os.Stat(file); err == nil {
			return false, 0, nil
		}
		return true, 0, errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, nil, 0o600))
	}, func() []string { return []string{dir, folder, file} })
	there := func() bool {
		_, err := os.Stat(file)
		return err == nil && s.Err() == nil
	}
	for i := range 5 {
		until(t, there)
		if i%2 == 0 {
			if err := os.Rename(folder, filepath.Join(dir, "old"+string(rune('0'+i)))); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	until(t, there)
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		pace.Pause(t.Context(), 10*time.Millisecond)
	}
	t.Fatal("it did not come back")
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolkit/toolkit.pid")
	log := slog.New(slog.DiscardHandler)
	first, second := &upkeep.Lock{Path: path}, &upkeep.Lock{Path: path}
	if err := first.Take(t.Context(), log, func(error) { t.Error("waits") }); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 100)
	taken := make(chan error)
	go func() { taken <- second.Take(t.Context(), log, func(err error) { waits <- err }) }()
	if err := <-waits; !strings.Contains(err.Error(), "another container toolkit runs on this node (process") {
		t.Errorf("waits because of %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
}

func TestUndo(t *testing.T) {
	for name, c := range map[string]struct {
		users []string
		err   error
		want  []string
	}{
		"nobody needs the tools": {nil, nil, []string{"runtime", "cdi", "tools"}},
		"somebody does":          {[]string{"process 42"}, nil, []string{"runtime", "cdi"}},
		"the engine still does":  {nil, errTest, []string{"runtime", "cdi"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			step := func(p upkeep.Part, err error) upkeep.Undo {
				return upkeep.Undo{Part: p, Do: func(ctx context.Context) error {
					got = append(got, string(p))
					return errors.Join(err, ctx.Err())
				}}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			err := upkeep.Undoing{
				Steps:       []upkeep.Undo{step(upkeep.Engine, c.err), step(upkeep.Specs, nil)},
				Users:       func() []string { return c.users },
				RemoveTools: func() error { got = append(got, "tools"); return nil },
				Log:         slog.New(slog.DiscardHandler),
			}.Run(ended)
			if !errors.Is(err, c.err) || errors.Is(err, context.Canceled) || !slices.Equal(got, c.want) {
				t.Errorf("took back %q, error %v; want %q, and the error of the first, %v", got, err, c.want, c.err)
			}
		})
	}
}
