package configfile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/kubetest"
)

// taken is what a plugin was told.
type taken struct {
	config *config.Config
	err    error
}

// sink hands on what a plugin would take.
type sink chan taken

func (s sink) Configure(c config.Config) { s <- taken{config: &c} }
func (s sink) Refuse(err error)          { s <- taken{err: err} }

// next returns what the plugin is told next.
func (s sink) next(t *testing.T) taken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case v := <-s:
		return v
	case <-ctx.Done():
		t.Fatal("the plugin was told nothing")
		return taken{}
	}
}

func (s sink) replicas(t *testing.T) int {
	t.Helper()
	v := s.next(t)
	switch {
	case v.err != nil:
		t.Fatalf("refused: %v", v.err)
	case len(v.config.Sharing.Shares) == 0:
		return 1
	}
	return v.config.Sharing.Shares[0].Replicas
}

func sliced(replicas string) string {
	return "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: " + replicas + "}]}}\n"
}

// settings is what an agent with all flags of the package reads from a command
// line.
func settings(t *testing.T, labels configfile.Labels, args ...string) (s configfile.Settings) {
	t.Helper()
	app := agent.App{
		Name: "test-agent", Flags: slices.Concat(agent.GPUFlags(), configfile.Flags(""), configfile.DeviceFlags("")),
		New: func(c *cli.Context, _ *slog.Logger) (*agent.Agent, error) {
			var err error
			s, err = configfile.Load(c, labels, slog.New(slog.DiscardHandler))
			if err == nil {
				err = errRead
			}
			return nil, err
		},
	}
	var out, errOut bytes.Buffer
	if agent.Exec(t.Context(), app, append([]string{"test-agent"}, args...), &out, &errOut); !strings.Contains(errOut.String(), errRead.Error()) {
		t.Fatalf("settings: %s", errOut.String())
	}
	return s
}

var errRead = errors.New("it was read")

// following runs what follows the config of a command line.
func following(t *testing.T, l configfile.Labels, args ...string) (sink, <-chan error) {
	t.Helper()
	s := settings(t, l, args...)
	to := make(sink, 8)
	w := configfile.NewLive(s, to, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		done <- w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	return to, done
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := hostfs.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheFileIsFollowedAndTheLastGoodOneStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, sliced("2"))
	to, done := following(t, (*cluster.API)(nil), "--config-file", path)
	put(t, path, sliced("3"))
	if n := to.replicas(t); n != 3 {
		t.Errorf("replicas %d, want 3", n)
	}
	put(t, path, sliced("many"))
	if v := to.next(t); v.err == nil || !strings.Contains(v.err.Error(), path) || !strings.Contains(v.err.Error(), "many") {
		t.Errorf("a bad file: %v", v.err)
	}
	// Back to what holds: the refusal is over.
	put(t, path, sliced("3"))
	if n := to.replicas(t); n != 3 {
		t.Errorf("replicas %d, want 3", n)
	}
	put(t, path, "flags: {nvidiaDriverRoot: /elsewhere}\n")
	if err := <-done; err == nil || !strings.Contains(err.Error(), "driver-root cannot change in a running process") {
		t.Errorf("another driver root: %v, want that the process ends", err)
	}
}

// What is in a file while somebody writes it is not taken for a config.
func TestTheFileIsEditedInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, sliced("2"))
	to, _ := following(t, (*cluster.API)(nil), "--config-file", path)
	for want := 3; want < 9; want++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.SplitAfter(sliced(strconv.Itoa(want)), "{") {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if n := to.replicas(t); n != want {
			t.Errorf("replicas %d, want %d", n, want)
		}
	}
}

func TestTheLabelChoosesTheFile(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default"), sliced("2"))
	put(t, filepath.Join(dir, "many"), sliced("10"))
	const key = "nvidia.com/device-plugin.config"
	api := kubetest.New(t, "node1", nil)
	client, err := kube.New(kube.Config{Server: api.URL(), Dir: api.Dir(t), Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	to, _ := following(t, client, "--config-dir", dir, "--fallback-strategies", "named")
	api.SetLabels(map[string]string{key: "many"})
	if n := to.replicas(t); n != 10 {
		t.Errorf("replicas %d, want 10", n)
	}
	api.SetLabels(map[string]string{key: "none-such"})
	if v := to.next(t); v.err == nil || !strings.Contains(v.err.Error(), "none-such") {
		t.Errorf("a label without a file: %v", v.err)
	}
	// The file that it names comes: nobody has to touch the label again.
	put(t, filepath.Join(dir, "none-such"), sliced("7"))
	if n := to.replicas(t); n != 7 {
		t.Errorf("replicas %d, want 7", n)
	}
	api.SetLabels(nil)
	if n := to.replicas(t); n != 2 {
		t.Errorf("replicas %d, want 2", n)
	}
	api.SetLabels(map[string]string{key: "many"})
	if n := settings(t, client, "--config-dir", dir).Config.Sharing.Shares[0].Replicas; n != 10 {
		t.Errorf("at the start replicas %d, want 10, as the label says", n)
	}
	api.SetLabels(nil)
	if n := settings(t, client, "--config-dir", dir, "--default-config=default").Config.Sharing.Shares[0].Replicas; n != 2 {
		t.Errorf("at the start replicas %d, want 2, without the label", n)
	}
}
