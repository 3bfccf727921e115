package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoThreadHasACapability looks at the process of the test, which starts as the program
// does.
func TestNoThreadHasACapability(t *testing.T) {
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatalf("find the threads: %v, %v", threads, err)
	}
	lines := 0
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue // The thread has ended.
		}
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch name {
			case "CapInh", "CapPrm", "CapEff", "CapAmb":
				lines++
				if strings.Trim(value, "0") != "" {
					t.Errorf("%s: %s is %s", thread, name, value)
				}
			}
		}
	}
	if lines < 4 {
		t.Errorf("%d lines about capabilities in /proc", lines)
	}
}
