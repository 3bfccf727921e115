package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/health/record"
)

func TestHostileFiles(t *testing.T) {
	stamp := "OUTRIGGER_WRITER=x\nOUTRIGGER_BOOT_ID=boot-1\nOUTRIGGER_TIME=2026-01-01T00:00:00Z\n"
	var many, old strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, "XID_95_ALL_ALL_GPU_%d=last:1\n", 100+i)
		fmt.Fprintf(&old, "XID_%d_ALL_ALL_GPU_0=last:1\n", 1000+i)
	}
	for name, tc := range map[string]struct {
		text    string
		healthy bool
		warns   bool
	}{
		"a good line":                 {stamp + "XID_95_ALL_ALL_GPU_0=last:1,first:1", false, false},
		"a field of a later release":  {stamp + "XID_95_ALL_ALL_GPU_0=last:1,color:red\nOTHER=1", false, false},
		"a time in the future":        {stamp + "XID_95_ALL_ALL_GPU_0=last:99999999999999,first:18446744073709551615", false, false},
		"no stamp":                    {"XID_95_ALL_ALL_GPU_0=last:1", true, false},
		"no time":                     {stamp + "XID_95_ALL_ALL_GPU_0=away", true, true},
		"no number":                   {stamp + "XID_x_ALL_ALL_GPU_0=last:1", true, true},
		"a number that is too large":  {stamp + "XID_99999999999999999999_ALL_ALL_GPU_0=last:1", true, true},
		"no GPU":                      {stamp + "XID_95_ALL_ALL_=last:1", true, true},
		"no instance":                 {stamp + "XID_95_GPU_0=last:1", true, true},
		"an instance too large":       {stamp + "XID_95_4294967296_ALL_GPU_0=last:1", true, true},
		"half an instance":            {stamp + "XID_95_ALL_1_GPU_0=last:1", true, true},
		"a bad counter":               {stamp + "XID_95_ALL_ALL_GPU_0=last:1,energy:-5", true, true},
		"a bad device":                {stamp + "XID_95_ALL_ALL_GPU_0=last:1,device:a/b", true, true},
		"no lines":                    {"\x00\x01", true, true},
		"too many XIDs":               {stamp + many.String(), true, true},
		"too many XIDs that are over": {stamp + old.String(), true, true},
		"too many bytes":              {stamp + strings.Repeat("#", 70<<10), true, true},
		"empty":                       {"", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if err := os.MkdirAll(filepath.Dir(h.path()), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, h.path(), tc.text)
			a := h.start()
			if got := a.healthy("GPU-0"); got != tc.healthy {
				t.Errorf("GPU-0 is healthy: %v, want %v", got, tc.healthy)
			}
			for range 3 {
				a.observe()
			}
			if n := strings.Count(a.log.String(), "level=WARN"); n > 1 || n > 0 != tc.warns {
				t.Errorf("%d warnings:\n%s", n, a.log)
			}
			a.xid("GPU-1", 95, time.Now())
			if b := h.start(); b.healthy("GPU-1") != (name == "too many XIDs") {
				t.Errorf("the agent did not share an XID after it found the file")
			}
		})
	}
}

// Without a run root, an agent knows what it observes.
func TestNoRunRoot(t *testing.T) {
	for name, root := range map[string]string{"empty": "", "missing": "/nonexistent/run"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.dir.Root = root
			a := h.start()
			a.xid("GPU-0", 95, time.Now())
			if a.healthy("GPU-0") {
				t.Error("xid 95 does not count")
			}
			a.sync()
			a.sync()
			if strings.Contains(a.log.String(), "WARN") {
				t.Errorf("warnings:\n%s", a.log)
			}
			if h.meter.reads > 1 {
				t.Errorf("%d reads of the energy for one XID that cannot be written", h.meter.reads)
			}
		})
	}
	var none *record.Record
	none.Save(nil)
	none.Restore(t.Context(), nil, nil)
	if err := none.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
