package engine

import (
	"bytes"
	"cmp"
	"context"
	"path"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/rawjson"
)

// LowLevel returns the program of the engine's default runtime without the changes of this package.
// It is a path, a name, or "" if the engine uses its built-in runtime. nvidia-container-runtime
// should execute it, so that a container with GPUs runs as the other containers of the node do.
// LowLevel writes nothing.
func (k *Keeper) LowLevel(ctx context.Context) (string, error) {
	p, err := k.Plan(ctx)
	return p.LowLevel, err
}

// lowLevel returns a program from a config, or "" if it is not a low-level runtime.
func lowLevel(program string) string {
	// A template of MicroK8s has variables. A runtime of a container toolkit is not low-level.
	if strings.Contains(program, "$") || strings.HasPrefix(path.Base(program), runtimeProgram) {
		return ""
	}
	return program
}

// containerdLowLevel returns the program of a runtime of containerd.
func containerdLowLevel(table map[string]any) string {
	for _, key := range [][]string{{"options", "BinaryName"}, {"options", "Runtime"}, {"runtime_engine"}} {
		if program, _ := valueAt(table, key).(string); program != "" {
			return lowLevel(program)
		}
	}
	return ""
}

// dockerLowLevel returns the program of Docker's default runtime. text is its config.
func (t target) dockerLowLevel(text []byte, d Desired) string {
	text = bytes.TrimPrefix(text, bom())
	_, flag := t.defaultFlag()
	name := cmp.Or(flag, jsonString(rawjson.Get(text, "default-runtime")))
	if name == "" || d.hasRuntime(name) {
		return ""
	}
	program := jsonString(rawjson.Get(text, "runtimes", name, "path"))
	if t.process != nil {
		for _, added := range t.process.options("add-runtime") {
			if path, ok := strings.CutPrefix(added, name+"="); ok {
				program = cmp.Or(program, path)
			}
		}
	}
	return lowLevel(program)
}
