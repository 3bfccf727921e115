package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSaveTimes fixes the format, which "bench page" reads.
func TestSaveTimes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "bench")
	err := saveTimes(folder, []times{
		{"stage device-plugin", []time.Duration{5 * time.Second, 7 * time.Second, 9 * time.Second}},
		{firstPod, []time.Duration{8500 * time.Millisecond}},
	}, time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "date": "2026-11-27",
  "rows": [
    {
      "note": "5.0 s to 9.0 s, 3 times",
      "operation": "helm install → stage device-plugin",
      "unit": "s",
      "value": 7
    },
    {
      "goal": {
        "target": 10
      },
      "note": "8.5 s to 8.5 s, 1 times",
      "operation": "helm install → first GPU pod has computed",
      "unit": "s",
      "value": 8.5
    }
  ]
}
`
	if string(got) != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	if err := saveTimes("", nil, time.Time{}); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}
