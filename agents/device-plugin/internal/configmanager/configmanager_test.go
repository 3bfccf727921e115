package configmanager

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// label is a source of the node's labels that a test sets.
type label chan string

// WatchLabels implements configfile.Labels.
func (l label) WatchLabels(ctx context.Context, deliver func(map[string]string)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case value := <-l:
			deliver(map[string]string{"nvidia.com/device-plugin.config": value})
		}
	}
}

// chart sets what NVIDIA's chart sets for its config manager, and returns the folder of
// the configs and the file that the agents read.
func chart(t *testing.T, oneshot string) (configs, file string) {
	t.Helper()
	configs, file = t.TempDir(), filepath.Join(t.TempDir(), "config.yaml")
	for name, value := range map[string]string{
		"ONESHOT": oneshot, "KUBECONFIG": "", "NODE_NAME": "node1", "NODE_LABEL": "nvidia.com/device-plugin.config",
		"CONFIG_FILE_SRCDIR": configs, "CONFIG_FILE_DST": file, "DEFAULT_CONFIG": "", "FALLBACK_STRATEGIES": "named,single",
		"SEND_SIGNAL": "true", "SIGNAL": "1", "PROCESS_TO_SIGNAL": "nvidia-device-plugin",
	} {
		t.Setenv(name, value)
	}
	return configs, file
}

// run runs the config manager until ctx ends.
func run(ctx context.Context, l label) (int, string) {
	var out bytes.Buffer
	code := agent.Exec(ctx, newApp(&settings{labels: l}), []string{Name}, &out, &out)
	return code, out.String()
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

// wait waits until a file has this content.
func wait(t *testing.T, file, content string) {
	t.Helper()
	agenttest.Poll(t, file+" has "+content, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && string(data) == content
	})
}

func TestFlags(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(App()))
	assert.NilError(t, agenttest.CheckHelp(App()))
}

func TestTheInitContainerWritesTheSelectedFile(t *testing.T) {
	for name, tc := range map[string]struct{ label, want string }{
		"the one of the label": {"a100", "version: v1 # a100"},
		"the default":          {"", "version: v1 # default"},
	} {
		t.Run(name, func(t *testing.T) {
			configs, file := chart(t, "true")
			write(t, configs, "default", "version: v1 # default")
			write(t, configs, "a100", "version: v1 # a100")
			l := make(label, 1)
			l <- tc.label
			if code, log := run(t.Context(), l); code != 0 {
				t.Fatalf("exit code %d: %s", code, log)
			}
			wait(t, file, tc.want)
		})
	}
}

func TestTheInitContainerFailsWithoutTheFile(t *testing.T) {
	configs, file := chart(t, "true")
	write(t, configs, "default", "version: v1")
	l := make(label, 1)
	l <- "h100"
	code, log := run(t.Context(), l)
	if _, err := os.Stat(file); code != 1 || err == nil || !strings.Contains(log, `"h100"`) {
		t.Errorf("exit code %d, file: %v, log %s; want 1, no file, and the label's value", code, err, log)
	}
}

func TestTheSidecarFollowsLabelAndFiles(t *testing.T) {
	configs, file := chart(t, "false")
	write(t, configs, "default", "1")
	write(t, configs, "a100", "2")
	l := make(label, 1)
	l <- ""
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		code, log := run(ctx, l)
		t.Log(log)
		done <- code
	}()
	wait(t, file, "1")
	l <- "a100"
	wait(t, file, "2")
	l <- "missing"
	l <- "a100"
	write(t, configs, "a100", "3")
	wait(t, file, "3")
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d after the end, want 0", code)
	}
}

func TestPathsAreRequired(t *testing.T) {
	chart(t, "true")
	t.Setenv("CONFIG_FILE_DST", "")
	if code, log := run(t.Context(), make(label)); code != 2 || !strings.Contains(log, "--config-file-dst") {
		t.Errorf("exit code %d and log %q, want 2 and the flag", code, log)
	}
}
