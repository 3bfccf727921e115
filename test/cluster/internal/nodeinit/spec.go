// Package nodeinit is the first process of a node. It makes the node's root
// file system, runs the node's components, and takes all of them with it when
// it ends.
package nodeinit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/test/cluster/internal/render"
)

// Spec is all that the first process of a node is told.
type Spec struct {
	Name string `json:"name"`
	// Dir is the node's folder on the machine. The node sees it at the same path.
	Dir string `json:"dir"`
	// BinDir is the folder of the project's programs.
	BinDir string `json:"binDir"`
	// Cgroup is the name of the cluster's cgroups. The node's is below it.
	Cgroup string `json:"cgroup"`
	// GPUSim is the folder of the simulated GPU node; empty on a plain node.
	GPUSim     string             `json:"gpuSim,omitempty"`
	Components []render.Component `json:"components"`
}

// Socket returns the path at which the first process takes commands.
func (s Spec) Socket() string { return filepath.Join(s.Dir, "init.sock") }

// Root returns the folder on the machine that holds what the node's root file
// system has in place of the machine's files, or beside them.
func (s Spec) Root() string { return filepath.Join(s.Dir, "root") }

// Log returns the path of the log of a component, or of the first process: init.
func (s Spec) Log(component string) string { return LogFile(s.Dir, component) }

// LogFile is Log for the folder of a node, where its spec is yet to be made.
func LogFile(dir, component string) string { return filepath.Join(dir, "log", component+".log") }

// file returns the path of the spec itself.
func (s Spec) file() string { return filepath.Join(s.Dir, "spec.json") }

// Save writes the spec into the node's folder and returns the path.
func (s Spec) Save() (string, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode spec of %s: %w", s.Name, err)
	}
	if err := os.WriteFile(s.file(), b, 0o600); err != nil {
		return "", fmt.Errorf("write spec of %s: %w", s.Name, err)
	}
	return s.file(), nil
}

// Load reads the spec in a node's folder.
func Load(dir string) (Spec, error) {
	var s Spec
	path := Spec{Dir: dir}.file()
	b, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("read node spec: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("decode node spec %s: %w", path, err)
	}
	return s, nil
}
