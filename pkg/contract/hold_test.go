package contract_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/contract"
)

func TestHold(t *testing.T) {
	d := newDir(t)
	first, err := d.HoldFile(d.Path(contract.PluginReady), contract.Record{Writer: "first"})
	must(t, err)
	if got := d.Read(contract.PluginReady); got.State != contract.Valid || !got.Stamp.Held {
		t.Errorf("while held: got %+v", got)
	}
	second, err := d.HoldFile(d.Path(contract.PluginReady), contract.Record{Writer: "second"})
	must(t, err)
	must(t, first.Release())
	if got := d.Read(contract.PluginReady); got.State != contract.Valid || got.Stamp.Writer != "second" {
		t.Errorf("the end of a replaced writer must not touch its successor's file: got %+v", got)
	}
	must(t, second.Release())
	if got := d.Read(contract.PluginReady); got.State != contract.Missing {
		t.Errorf("after Release: got %+v", got)
	}
	must(t, (*contract.Held)(nil).Release())
}

func TestHoldEndsWithTheProcess(t *testing.T) {
	d := newDir(t)
	a := start(t, "hold", d)
	if got := d.Read(contract.PluginReady); got.State != contract.Valid {
		t.Fatalf("while the writer lives: got %+v", got)
	}
	a.kill()
	got := d.Read(contract.PluginReady)
	if got.State != contract.WriterDead || !strings.Contains(got.Reason, "device-plugin, which has ended") {
		t.Errorf("after a crash: got %+v", got)
	}
	a = start(t, "hold", d)
	if got := d.Read(contract.PluginReady); got.State != contract.Valid {
		t.Errorf("after the restart: got %+v", got)
	}
	a.quit()
	if got := d.Read(contract.PluginReady); got.State != contract.Missing {
		t.Errorf("after an orderly end: got %+v", got)
	}
}

func TestWait(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "run", "nvidia")}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen []contract.State
	f, err := d.Wait(ctx, contract.PluginReady, func(f contract.Fact) {
		seen = append(seen, f.State)
		if f.Reason == "" {
			t.Errorf("state %s has no reason", f.State)
		}
		switch len(seen) {
		case 1:
			must(t, os.MkdirAll(d.Root, 0o755))
			start(t, "hold", d).kill()
		case 2:
			start(t, "hold", d)
		}
	})
	must(t, err)
	if f.State != contract.Valid || f.Stamp.Writer != "device-plugin" {
		t.Errorf("got %+v", f)
	}
	want := []contract.State{contract.Missing, contract.WriterDead}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("states on the way (-want +got):\n%s", diff)
	}
}

func TestWaitGivesUp(t *testing.T) {
	d := newDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.Wait(ctx, contract.DriverReady, func(contract.Fact) { cancel() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has not been written yet") {
		t.Errorf("want the reason and context.Canceled, got %v", err)
	}
}
