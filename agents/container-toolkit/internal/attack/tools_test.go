package attack_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tools is the folder with our tools, which TestMain builds. The tests start themselves
// again in namespaces: the variable tells them where it is.
const toolsVariable = "ATTACK_BIN"

// ownVariable is set if the tools are ours, which have all commands.
const ownVariable = "ATTACK_OWN"

func TestMain(m *testing.M) {
	if folder := os.Getenv(toolsVariable); folder != "" {
		if found, err := filepath.Glob(filepath.Join(folder, "nvidia-c*")); err != nil || len(found) == 0 {
			// All tests would be skipped, which looks like a success.
			fmt.Fprintf(os.Stderr, "%s: %s has no nvidia-cdi-hook and no nvidia-container-cli: name the folder of the tools\n", toolsVariable, folder)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := makeTools(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		os.Setenv(toolsVariable, dir)
		os.Setenv(ownVariable, "true")
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// makeTools puts our tools into a folder: those of OUTRIGGER_BIN, or it builds them.
func makeTools(dir string) error {
	tools, err := os.ReadDir("../../tools")
	if err != nil {
		return err
	}
	for _, tool := range tools {
		built, err := os.ReadFile(filepath.Join(os.Getenv("OUTRIGGER_BIN"), tool.Name()))
		if err != nil {
			build := exec.CommandContext(context.Background(), "go", "build", "-o", dir, "../../tools/"+tool.Name())
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("build %s: %w: %s", tool.Name(), err, out)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, tool.Name()), built, 0o755); err != nil { //nolint:gosec // a program
			return err
		}
	}
	return nil
}
