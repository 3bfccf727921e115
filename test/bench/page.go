package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/test/bench/internal/machine"
	"outrigger.dev/test/bench/internal/page"
	"outrigger.dev/test/bench/internal/report"
)

// pageCommand returns the command that writes the page of the benchmarks.
func pageCommand() *cli.Command {
	return &cli.Command{
		Name: "page", Usage: "add the results of runs on this machine to the file of all results, and write the page from it",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "from", EnvVars: []string{"BENCH_FROM"}, Value: "out/bench", Usage: "`FOLDER` with the results of runs"},
			&cli.PathFlag{Name: "json", EnvVars: []string{"BENCH_JSON"}, Value: "docs/benchmarks.json", Usage: "`FILE` of all results"},
			&cli.PathFlag{Name: "page", EnvVars: []string{"BENCH_PAGE"}, Value: "docs/benchmarks.md", Usage: "`FILE` of the page"},
		},
		Action: writePage,
	}
}

// all is the file of all results.
type all struct {
	Results []page.Result `json:"results"`
}

func writePage(c *cli.Context) error {
	figures, err := page.Figures()
	if err != nil {
		return err
	}
	var stored all
	if err := readJSON(c.Path("json"), &stored); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	here, err := machine.Describe()
	if err != nil {
		return err
	}
	runs, err := filepath.Glob(filepath.Join(c.Path("from"), "*.json"))
	if err != nil {
		return fmt.Errorf("find results: %w", err)
	}
	results := stored.Results
	for _, path := range runs {
		var run report.Run
		if err := readJSON(path, &run); err != nil {
			return err
		}
		results = page.Merge(results, run, here)
	}
	text, err := json.MarshalIndent(all{results}, "", "  ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	for path, content := range map[string][]byte{c.Path("json"): append(text, '\n'), c.Path("page"): []byte(page.Page(figures, results))} {
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // documentation is public
			return fmt.Errorf("write benchmarks: %w", err)
		}
	}
	for _, operation := range page.Missing(figures, results) {
		fmt.Fprintln(os.Stderr, "not measured yet:", operation)
	}
	return nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read results %s: %w", path, err)
	}
	return nil
}
