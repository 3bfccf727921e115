package upkeep_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent/agenttest"
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
	assert.ErrorContains(t, s.Err(), "tools: has not run yet")
	s.Set(upkeep.Tools, nil)
	s.Set(upkeep.Tools, nil)
	s.Set(upkeep.Specs, errTest)
	s.Set(upkeep.Specs, errTest)
	s.Set(upkeep.Specs, nil)
	s.Set(upkeep.Engine, errTest) // no part of this agent
	s.Set(upkeep.Tools, errTest)
	want := []string{"cdi: has not run yet", "cdi: no space", "ready", "tools: no space"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestKeeperEndsOnceThePartIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, log := 0, slog.New(slog.DiscardHandler)
		status := upkeep.NewStatus(log, func(error) {}, upkeep.Sole)
		var k *upkeep.Keeper
		k = upkeep.NewKeeper(upkeep.KeeperConfig{
			Part: upkeep.Sole, Once: true, Status: status, Log: log,
			Reconcile: func(context.Context) (upkeep.Result, error) {
				select {
				case <-k.Done():
					t.Error("done before a success")
				default:
				}
				if status.Err() == nil {
					t.Error("ready before a success")
				}
				if calls++; calls < 3 {
					return upkeep.Result{}, errTest
				}
				return upkeep.Result{}, nil
			},
		})
		if err := k.Run(t.Context()); err != nil || status.Err() != nil || calls != 3 {
			t.Errorf("Run() = %v, not ready because of %v after %d calls, want nil after 3", err, status.Err(), calls)
		}
		<-k.Done()
	})
}

// A folder that was removed and made again is watched again.
func TestKeeperFollowsWhatItMakes(t *testing.T) {
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "a"), filepath.Join(dir, "a/b")
	log := slog.New(slog.DiscardHandler)
	s := upkeep.NewStatus(log, func(error) {}, upkeep.Tools)
	k := upkeep.NewKeeper(upkeep.KeeperConfig{
		Part: upkeep.Tools, Status: s, Log: log,
		Reconcile: func(context.Context) (upkeep.Result, error) {
			r := upkeep.Result{Watched: []string{dir, folder, file}}
			if _, err := os.Stat(file); err == nil {
				return r, nil
			}
			return r, errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, nil, 0o600))
		},
	})
	agenttest.Run(t, k.Run)
	there := func() bool {
		_, err := os.Stat(file)
		return err == nil && s.Err() == nil
	}
	for i := range 5 {
		agenttest.Poll(t, "the folder and the file to come back", there)
		if i%2 == 0 {
			assert.NilError(t, os.Rename(folder, filepath.Join(dir, "old"+string(rune('0'+i)))))
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	agenttest.Poll(t, "the folder and the file to come back", there)
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolkit/toolkit.pid")
	first, second := &upkeep.Lock{Path: path}, &upkeep.Lock{Path: path}
	assert.NilError(t, first.Acquire())
	assert.ErrorContains(t, second.Acquire(), "another container toolkit runs on this node (process")
	assert.NilError(t, first.Release())
	if err := second.Acquire(); err != nil || first.Held() || !second.Held() {
		t.Fatalf("after the end of the first: %v, held %v, %v", err, first.Held(), second.Held())
	}
	assert.NilError(t, second.Release())
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
}
