package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
)

// apiServer is an API server that has the DaemonSet of the agent.
type apiServer struct {
	*httptest.Server
	dir string

	mu sync.Mutex
	// denied is set once the rights of the agent are gone.
	denied  bool
	watched chan struct{}
	events  chan string
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{watched: make(chan struct{}, 8), events: make(chan string, 8)}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	s.dir = agenttest.Account(t, s.Server)
	return s
}

const daemonSet = `{"kind":"PartialObjectMetadata","metadata":{"name":"toolkit","namespace":"gpus","resourceVersion":"1"%s}}`

// ServeHTTP answers what the agent's role allows: to get, list and watch its DaemonSet.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	denied := s.denied
	s.mu.Unlock()
	list, query := "/apis/apps/v1/namespaces/gpus/daemonsets", r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case denied:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","code":403,"message":"forbidden"}`)
	case r.URL.Path == list+"/toolkit":
		fmt.Fprintf(w, daemonSet, "")
	case r.URL.Path != list || query.Get("fieldSelector") != "metadata.name=toolkit":
		w.WriteHeader(http.StatusNotFound)
	case query.Get("watch") == "":
		fmt.Fprintf(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[`+daemonSet+`]}`, "")
	default:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		s.watched <- struct{}{}
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-s.events:
				_ = json.NewEncoder(w).Encode(json.RawMessage(event))
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
}

// delete deletes the DaemonSet, and then the rights of the agent, as "helm uninstall" does.
func (s *apiServer) delete() {
	s.events <- `{"type":"DELETED","object":` + fmt.Sprintf(daemonSet, "") + `}`
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = true
}

// startInPod starts the agent as a pod of the DaemonSet.
func (h *host) startInPod(api *apiServer, args ...string) *process {
	h.t.Helper()
	cmd := h.command(append([]string{"--daemonset-name", "toolkit", "--namespace", "gpus", "--node-name", "node-1"}, args...)...)
	agenttest.InPod(h.t, cmd, api.URL, api.dir)
	p := &process{host: h, Process: agenttest.Start(h.t, cmd)}
	<-api.watched
	return p
}

// content returns the content of all files that the agent may change.
func (h *host) content() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, root := range []string{h.path("nvidia"), h.path("cdi"), h.path("host")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return nil
			}
			if err == nil && d.Type().IsRegular() {
				var data []byte
				data, err = os.ReadFile(path)
				out[path] = string(data)
			}
			return err
		})
		assert.NilError(h.t, err)
	}
	return out
}

func TestUninstall(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	before := h.content()
	api := newAPIServer(t)
	p := h.startInPod(api)
	p.ready()
	installed := h.content()

	// An update, or the drain of the node: all stays.
	p.Stop()
	if d := cmp.Diff(installed, h.content()); d != "" {
		t.Errorf("an update of the agent changes the node (-before +after):\n%s", d)
	}

	p = h.startInPod(api)
	p.ready()
	api.delete()
	p.Stop()
	p.Said("removing the published state")
	if d := cmp.Diff(before, h.content()); d != "" {
		t.Errorf("after the removal (-before +after):\n%s", d)
	}
	if _, err := os.Lstat(h.path("nvidia")); err == nil {
		t.Error("the folder of the installation, which was empty before, is left")
	}
	if f := h.fact(); f.State != contract.Missing {
		t.Errorf("toolkit-ready is %s", f.State)
	}
	if links, err := os.ReadDir(filepath.Join(h.node.Root, "dev/char")); err != nil || len(links) > 0 {
		t.Errorf("/dev/char has %v, %v", links, err)
	}
	if _, err := os.Stat(h.path("run/toolkit/toolkit.pid")); err == nil {
		t.Error("the file of the lock is left")
	}
}

// An agent that cannot ask leaves everything, and says how a person takes it back.
func TestStopWhileTheAPIServerIsAway(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	api := newAPIServer(t)
	p := h.startInPod(api)
	p.ready()
	installed := h.content()
	api.CloseClientConnections()
	api.Close()
	p.Stop()
	p.Said("cannot read the DaemonSet of this agent, keeping the published state", h.path("nvidia/toolkit")+"/nvidia-ctk runtime unconfigure")
	if d := cmp.Diff(installed, h.content()); d != "" {
		t.Errorf("the agent changed the node (-before +after):\n%s", d)
	}
}

// A container that was started through the tools needs them to be stopped.
func TestUninstallLeavesToolsThatAreInUse(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	before := maps.Clone(h.content())
	api := newAPIServer(t)
	p := h.startInPod(api)
	p.ready()
	process := filepath.Join(h.node.Root, "proc/42")
	assert.NilError(t, os.MkdirAll(process, 0o755))
	line := "/usr/bin/conmon\x00-r\x00" + h.path("nvidia/toolkit/nvidia-container-runtime")
	assert.NilError(t, os.WriteFile(filepath.Join(process, "cmdline"), []byte(line), 0o600))
	api.delete()
	p.Stop()
	p.Said("keeping the tools", "process 42")
	after := h.content()
	if got := h.installed("nvidia-ctk"); got != "nvidia-ctk 1" {
		t.Errorf("nvidia-ctk is %q", got)
	}
	maps.DeleteFunc(after, func(path, _ string) bool { return strings.HasPrefix(path, h.path("nvidia")) })
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("besides the tools, after the removal (-before +after):\n%s", d)
	}
}

// An engine that starts containers through the tools needs them.
func TestUninstallLeavesToolsThatAPartRefersTo(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	api := newAPIServer(t)
	p := h.startInPod(api)
	p.ready()
	records, err := filepath.Glob(h.path("host/var/lib/nvidia-container-toolkit/engine/*.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("there are no records of the engine's config: %v", err)
	}
	for _, path := range records {
		assert.NilError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	}
	api.delete()
	p.Stop()
	p.Said("cannot remove the published state", "part=runtime")
	p.Said("keeping the tools, because the config of the container engine or the CDI specs still refer to them", h.path("nvidia/toolkit")+"/nvidia-ctk runtime unconfigure")
	if got := h.installed("nvidia-ctk"); got != "nvidia-ctk 1" {
		t.Errorf("nvidia-ctk is %q", got)
	}
	if f := h.fact(); f.State != contract.Missing {
		t.Errorf("toolkit-ready is %s", f.State)
	}
}
