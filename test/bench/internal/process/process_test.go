package process_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/bench/internal/process"
)

func TestThePeakIsThatOfTheProgramAlone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// This process uses more memory than the measured one.
	if err := fill(4 * eaten); err != nil {
		t.Fatal(err)
	}
	got, err := process.Once(t.Context(), self, eat)
	if err != nil {
		t.Fatal(err)
	}
	if got.Peak < eaten || got.Peak > 2*eaten {
		t.Errorf("peak %.1f MiB, want that of a program that uses %d MiB", got.Peak, eaten)
	}
	if got.Wall <= 0 || got.Wall > time.Minute {
		t.Errorf("wall time %s", got.Wall)
	}
}

func TestAPeakThatIsUnknownIsNotReported(t *testing.T) {
	if got, err := process.Once(t.Context(), "/bin/true"); err == nil {
		t.Errorf("got %+v for a program that is smaller than the one that starts it, want an error", got)
	}
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	_, err := process.Once(t.Context(), "/bin/sh", "-c", "echo no driver >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("error %v, want the program's own error in it", err)
	}
}

func TestAProcessIsStartedReadAndStopped(t *testing.T) {
	p, err := process.Start(t.Context(), process.Config{
		Line: []string{"/bin/sh", "-c", `trap 'exit 0' TERM; echo "hello $WHO" >&2; while :; do sleep 0.1; done`},
		Env:  []string{"WHO=world"}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for tick := time.Tick(10 * time.Millisecond); !strings.Contains(p.Tail(), "hello world"); {
		select {
		case <-tick:
		case <-t.Context().Done():
			t.Fatalf("the log has %q", p.Tail())
		}
	}
	if m, err := p.Memory(); err != nil || m.RSS <= 0 || m.Anonymous > m.RSS || m.Peak < m.RSS {
		t.Errorf("memory %+v, error %v", m, err)
	}
	if cpu, err := p.CPUClock(); err != nil || cpu <= 0 || cpu > time.Since(p.Started)*time.Duration(runtime.NumCPU()) {
		t.Errorf("processor time %s, error %v", cpu, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
