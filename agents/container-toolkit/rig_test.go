package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
)

// The tests of this package run the agent as a process on the simulated node.

func TestMain(m *testing.M) { agenttest.Main(m, agenttest.Pod(main)) }

// helper puts toolkit-gpus beside the program of the tests, where the agent finds it. It builds the program unless
// OUTRIGGER_BIN has it.
var helper = sync.OnceValue(func() error {
	beside := filepath.Join(filepath.Dir(os.Args[0]), gpus.Program)
	if built, err := os.ReadFile(filepath.Join(os.Getenv("OUTRIGGER_BIN"), gpus.Program)); err == nil {
		return os.WriteFile(beside, built, 0o755) //nolint:gosec // a program
	}
	out, err := exec.Command("go", "build", "-o", beside, "./toolkit-gpus").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build toolkit-gpus: %w: %s", err, out)
	}
	return nil
})

// The config of the host's container engine.
const (
	engineConfig = "host/etc/containerd/config.toml"
	engineText   = "# by hand\nversion = 2 # do not change\n"
)

// host is a host on which the agent runs.
type host struct {
	t    *testing.T
	node *simtest.Node
	dir  string
}

// newHost returns a host with a simulated node, and a release of the tools.
func newHost(t *testing.T, node ...string) *host {
	t.Helper()
	h := &host{t: t, node: simtest.New(t, node...), dir: t.TempDir()}
	assert.NilError(t, helper())
	for _, name := range []string{"run", "cdi", "nvidia", "tools", "host/etc/containerd", "host/var/lib"} {
		assert.NilError(t, os.MkdirAll(h.path(name), 0o755))
	}
	assert.NilError(t, os.WriteFile(h.path(engineConfig), []byte(engineText), 0o600))
	h.release("1")
	return h
}

func (h *host) path(name ...string) string { return filepath.Join(append([]string{h.dir}, name...)...) }

// release makes the tools to install those of a release.
func (h *host) release(version string) {
	h.t.Helper()
	for _, name := range []string{
		"nvidia-cdi-hook", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk",
	} {
		if err := os.WriteFile(h.path("tools", name), []byte(name+" "+version), 0o755); err != nil { //nolint:gosec // a program
			h.t.Fatal(err)
		}
	}
}

// process is a running agent.
type process struct {
	*agenttest.Process
	*host
}

// command returns the command that starts the agent.
func (h *host) command(args ...string) *exec.Cmd {
	h.t.Helper()
	return agenttest.Command(h.t, h.node, append([]string{
		"--run-root", h.path("run"), "--cdi-output-dir", h.path("cdi"), "--toolkit-install-dir", h.path("nvidia"),
		"--toolkit-source-root", h.path("tools"), "--toolkit-pid-file", h.path("run/toolkit/toolkit.pid"),
		"--runtime", "containerd", "--nvidia-runtime-set-as-default=false",
		// No process of this machine is a container engine of the host.
		"--host-root-mount", h.path("host"), "--proc-root", filepath.Join(h.node.Root, "proc"), "--listen", "127.0.0.1:0",
	}, args...)...)
}

func (h *host) start(args ...string) *process {
	h.t.Helper()
	return &process{host: h, Process: agenttest.Start(h.t, h.command(args...))}
}

// spec returns the CDI spec of GPUs, nil if there is none.
func (h *host) spec() *specs.Spec {
	h.t.Helper()
	data, err := os.ReadFile(h.path("cdi/nvidia.com-gpu.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var spec specs.Spec
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	assert.NilError(h.t, err)
	return &spec
}

// uuid returns the UUID of the GPU with an index.
func (h *host) uuid(index string) string {
	h.t.Helper()
	var node struct {
		GPUs []struct {
			Index int
			UUID  string
		}
	}
	assert.NilError(h.t, json.Unmarshal(h.node.Run("show", "--json"), &node))
	for _, g := range node.GPUs {
		if strconv.Itoa(g.Index) == index {
			return g.UUID
		}
	}
	h.t.Fatalf("there is no GPU %s among %v", index, node.GPUs)
	return ""
}

// describes waits until the spec of GPUs has exactly these devices among those whose name
// is an index.
func (h *host) describes(names ...string) {
	h.t.Helper()
	var got []string
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the spec has the devices %q", got)
		}
	}()
	agenttest.Poll(h.t, fmt.Sprintf("the CDI spec to have the devices %q", names), func() bool {
		spec := h.spec()
		if spec == nil {
			return false
		}
		got = nil
		for _, d := range spec.Devices {
			if strings.Trim(d.Name, "0123456789:") == "" && len(d.Name) < 5 {
				got = append(got, d.Name)
			}
		}
		return slices.Equal(got, names)
	})
}

// fact returns the fact that the toolkit is ready.
func (h *host) fact() contract.Fact {
	return contract.Dir{Root: h.path("run")}.Read(contract.ToolkitReady)
}

// ready waits until the agent and its fact say that the toolkit is ready.
func (p *process) ready() {
	p.t.Helper()
	agenttest.Poll(p.t, "/readyz to be ok, and toolkit-ready to be valid", func() bool {
		status, body := p.Ask("/readyz")
		return status == 200 && body == "ok\n" && p.fact().State == contract.Valid
	})
}

// unready waits until the agent says why the toolkit is not ready, and its fact is gone.
func (p *process) unready(parts ...string) {
	p.t.Helper()
	agenttest.Poll(p.t, fmt.Sprintf("/readyz to say %q, and toolkit-ready to be gone", parts), func() bool {
		status, body := p.Ask("/readyz")
		for _, part := range parts {
			if !strings.Contains(body, part) {
				return false
			}
		}
		return status == 503 && p.fact().State == contract.Missing
	})
}

// tree returns all files that the agent writes on the host, with what would change if
// one was written again.
func (h *host) tree() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, root := range []string{h.path("nvidia"), h.path("cdi"), h.path("host"), filepath.Join(h.node.Root, "dev")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				out[path] = fmt.Sprintf("%v %v %d", info.Mode(), info.ModTime(), info.Size())
			}
			return err
		})
		assert.NilError(h.t, err)
	}
	return out
}

// installed returns the content of an installed file.
func (h *host) installed(name string) string {
	data, err := os.ReadFile(h.path("nvidia/toolkit", name))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(data))
}

// text returns the content of a file, "" if there is none.
func (h *host) text(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	return string(data)
}
