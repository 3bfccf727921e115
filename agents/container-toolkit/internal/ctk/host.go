package ctk

import (
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/hostfs"
)

// configPath returns the path of the config file of the tools. named is the value of the flag.
func configPath(named string) string { return toolconfig.Path(named, os.Getenv, toolconfig.Beside()) }

// loadConfig reads the config file of the tools. It warns about settings without effect.
func (p *program) loadConfig() (*toolconfig.Config, error) {
	cfg, warnings, err := toolconfig.Load(configPath(p.config))
	for _, w := range warnings {
		p.printNote(w)
	}
	return cfg, err
}

// printNote prints a note for the user, unless --quiet is set.
func (p *program) printNote(text string) {
	if !p.quiet {
		fmt.Fprintln(p.stderr, "nvidia-ctk:", text)
	}
}

// writeOutput writes the file that --output names. All users can read it.
func writeOutput(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return hostfs.WriteFile(path, data, 0o644)
}
