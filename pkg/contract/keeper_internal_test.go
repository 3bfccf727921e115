package contract

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The run root can be away for long: the log says once that the fact is gone.
func TestALostFactIsLoggedOnce(t *testing.T) {
	d := Dir{Root: filepath.Join(t.TempDir(), "run")}
	root := func() {
		t.Helper()
		if err := os.Mkdir(d.Root, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root()
	var log bytes.Buffer
	k := d.NewKeeper(d.Path(PluginReady), slog.New(slog.NewTextHandler(&log, nil)))
	k.Publish(Record{Writer: "device-plugin"})
	defer k.Withdraw()
	for losses := 1; losses <= 2; losses++ {
		if err := os.RemoveAll(d.Root); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := k.put(); err == nil {
				t.Fatal("published without a run root")
			}
		}
		root()
		if err := k.put(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "publishing it again"); n != losses {
			t.Errorf("%d log lines after %d losses:\n%s", n, losses, log.String())
		}
	}
}
