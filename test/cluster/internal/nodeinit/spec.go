// Package nodeinit implements the first process of a node. It creates the node's root file
// system and runs the node's components, which end when it ends.
package nodeinit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/test/cluster/internal/render"
)

// Spec is the configuration of the first process of a node.
type Spec struct {
	Name string `json:"name"`
	// Dir is the node's folder on the machine. The node sees it at the same path.
	Dir string `json:"dir"`
	// BinDir is the folder of the project's programs.
	BinDir string `json:"binDir"`
	// Cgroup is the name of the cluster's cgroup, the parent of the node's cgroup.
	Cgroup string `json:"cgroup"`
	// GPUSim is the folder of the simulated GPU node; empty on a plain node.
	GPUSim string `json:"gpuSim,omitempty"`
	// Bare says that the simulated GPU node has no driver.
	Bare       bool               `json:"bare,omitempty"`
	Components []render.Component `json:"components"`
}

// Command returns the command of the first process. On a bare node, it runs on the simulated
// kernel.
func (s Spec) Command() []string {
	command := []string{filepath.Join(s.BinDir, "cluster"), "node-init", "--dir", s.Dir}
	if s.Bare {
		command = append([]string{s.gpuSim(), "kernel", "--root", s.GPUSim, "--"}, command...)
	}
	return command
}

func (s Spec) gpuSim() string { return filepath.Join(s.BinDir, "gpu-sim") }

// Socket returns the path of the first process's socket for commands.
func (s Spec) Socket() string { return filepath.Join(s.Dir, "init.sock") }

// Root returns the folder on the machine with the upper layer of the node's root file system: files
// that it has in addition to the machine's files, or instead of them.
func (s Spec) Root() string { return filepath.Join(s.Dir, "root") }

// Log returns the path of the log of a component. The component "init" is the first process.
func (s Spec) Log(component string) string { return LogFile(s.Dir, component) }

// LogFile is Log for the folder of a node that has no spec yet.
func LogFile(dir, component string) string { return filepath.Join(dir, "log", component+".log") }

// file returns the path of the spec itself.
func (s Spec) file() string { return filepath.Join(s.Dir, "spec.json") }

// Save writes the spec to the node's folder and returns its path.
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

// Load reads the spec from a node's folder.
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
