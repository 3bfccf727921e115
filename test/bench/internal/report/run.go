package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Run is the file of a run. "demo measure", in another module, writes the same format.
type Run struct {
	// Date is the day of the run, such as 2026-11-27.
	Date string `json:"date"`
	Rows []Row  `json:"rows"`
}

// Save writes the rows to the file NAME.json in a folder, which it creates. It does nothing if folder is empty.
func (t *Table) Save(folder, name string) error {
	if folder == "" {
		return nil
	}
	text, err := json.MarshalIndent(Run{Date: time.Now().Format(time.DateOnly), Rows: t.rows}, "", "  ")
	if err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil { //nolint:gosec // results are public
		return fmt.Errorf("save results: %w", err)
	}
	return nil
}
