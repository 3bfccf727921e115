package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/e2e/stack"
)

// TestModulesImportOnlyWhatTheyMay holds the rules of direction in
// ARCHITECTURE.md against what each module links, tests left out.
func TestModulesImportOnlyWhatTheyMay(t *testing.T) {
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Glob(filepath.Join(root, "agents", "*", "go.mod"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("agents are %v (error %v), want some", modules, err)
	}
	for _, name := range []string{"pkg", "charts", "orchestrator"} {
		if mod := filepath.Join(root, name, "go.mod"); exists(mod) {
			modules = append(modules, mod)
		}
	}
	for _, mod := range modules {
		all := list(t, filepath.Dir(mod))
		for _, v := range violations(all, rules()) {
			t.Errorf("%s: see \"Direction rules\" in ARCHITECTURE.md", v)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// list returns the packages that a module links.
func list(t *testing.T, dir string) pkgs {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Name,Standard,Imports,CgoFiles", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of %s: %v", dir, err)
	}
	all := pkgs{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Name  string
			Standard          bool
			Imports, CgoFiles []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("list the packages of %s: %v", dir, err)
		}
		if !p.Standard {
			all[p.ImportPath] = pkg{Main: p.Name == "main", Cgo: len(p.CgoFiles) > 0, Imports: p.Imports}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no package", dir)
	}
	return all
}

func TestDirectionRules(t *testing.T) {
	const (
		plugin  = "outrigger.dev/agents/device-plugin"
		toolkit = "outrigger.dev/agents/container-toolkit"
		tool    = toolkit + "/tools/nvidia-ctk"
	)
	nvml := pkg{Cgo: true}
	for name, c := range map[string]struct {
		all  pkgs
		want []string
	}{
		"an agent that imports pkg":          {all: pkgs{plugin: {Imports: []string{"outrigger.dev/pkg/gpu", plugin + "/internal/app", "fmt"}}}},
		"an agent that imports another":      {all: pkgs{plugin + "/internal/app": {Imports: []string{toolkit + "/api"}}}, want: []string{plugin + "/internal/app imports " + toolkit + "/api"}},
		"an agent whose name begins alike":   {all: pkgs{plugin: {Imports: []string{plugin + "-2"}}}, want: []string{plugin + " imports " + plugin + "-2"}},
		"pkg that imports an agent":          {all: pkgs{"outrigger.dev/pkg/gpu": {Imports: []string{plugin}}}, want: []string{"outrigger.dev/pkg/gpu imports " + plugin}},
		"charts that import pkg":             {all: pkgs{"outrigger.dev/charts": {Imports: []string{"outrigger.dev/pkg/text"}}}, want: []string{"outrigger.dev/charts imports outrigger.dev/pkg/text"}},
		"go-nvml below the NVML session":     {all: pkgs{"outrigger.dev/pkg/gpu/nvml/reader": {Imports: []string{"github.com/NVIDIA/go-nvml/pkg/nvml"}}}},
		"go-nvml in an agent":                {all: pkgs{plugin: {Imports: []string{"github.com/NVIDIA/go-nvml/pkg/nvml"}}}, want: []string{plugin + " imports github.com/NVIDIA/go-nvml/pkg/nvml"}},
		"go-nvml in a library of others":     {all: pkgs{"github.com/NVIDIA/go-nvlib": {Imports: []string{"github.com/NVIDIA/go-nvml/pkg/nvml"}}}},
		"client-go in an agent":              {all: pkgs{plugin: {Imports: []string{"k8s.io/client-go/rest"}}}, want: []string{plugin + " imports k8s.io/client-go/rest"}},
		"client-go and Helm in orchestrator": {all: pkgs{"outrigger.dev/orchestrator/apply": {Imports: []string{"k8s.io/client-go/rest", "helm.sh/helm/v4/pkg/engine", "outrigger.dev/charts", "outrigger.dev/pkg/kube"}}}},
		"cgo in orchestrator": {
			all: pkgs{
				"outrigger.dev/orchestrator":  {Main: true, Imports: []string{"outrigger.dev/pkg/gpu/nvml"}},
				"outrigger.dev/pkg/gpu/nvml":  {Imports: []string{"github.com/NVIDIA/go-nvml"}},
				"github.com/NVIDIA/go-nvml":   nvml,
				"outrigger.dev/pkg/unrelated": {Imports: []string{"example.com/c"}}, "example.com/c": nvml,
			},
			want: []string{"outrigger.dev/orchestrator links outrigger.dev/pkg/gpu/nvml links github.com/NVIDIA/go-nvml"},
		},
		"a host tool that is static": {
			all: pkgs{tool: {Main: true, Imports: []string{"outrigger.dev/pkg/cdi"}}, "outrigger.dev/pkg/cdi": {Imports: []string{"tags.cncf.io/container-device-interface"}}},
		},
		"a host tool with cgo by way of a library": {
			all: pkgs{
				tool:                        {Main: true, Imports: []string{toolkit + "/internal/mount"}},
				toolkit + "/internal/mount": {Imports: []string{"example.com/c"}}, "example.com/c": {Cgo: true},
			},
			want: []string{tool + " links " + toolkit + "/internal/mount links example.com/c"},
		},
		"a host tool with client-go by way of pkg": {
			all: pkgs{
				tool:                     {Main: true, Imports: []string{"outrigger.dev/pkg/kube"}},
				"outrigger.dev/pkg/kube": {Imports: []string{"k8s.io/client-go/rest"}},
			},
			want: []string{tool + " links outrigger.dev/pkg/kube links k8s.io/client-go/rest"},
		},
		"an agent with the types of the API": {
			all: pkgs{
				plugin:                          {Main: true, Imports: []string{"outrigger.dev/pkg/kube"}},
				"outrigger.dev/pkg/kube":        {Imports: []string{"k8s.io/client-go/tools/record"}},
				"k8s.io/client-go/tools/record": {Imports: []string{"k8s.io/api/core/v1"}},
			},
			want: []string{plugin + " links outrigger.dev/pkg/kube links k8s.io/client-go/tools/record links k8s.io/api/core/v1"},
		},
		"the agent of the toolkit with cgo": {
			all: pkgs{toolkit: {Main: true, Imports: []string{"outrigger.dev/pkg/gpu/nvml"}}, "outrigger.dev/pkg/gpu/nvml": {Imports: []string{"github.com/NVIDIA/go-nvml"}}, "github.com/NVIDIA/go-nvml": nvml},
		},
		"a gpu value with a watcher": {
			all:  pkgs{"outrigger.dev/pkg/gpu": {Imports: []string{"outrigger.dev/pkg/hostfs"}}, "outrigger.dev/pkg/hostfs": {Imports: []string{"github.com/fsnotify/fsnotify"}}},
			want: []string{"outrigger.dev/pkg/gpu links outrigger.dev/pkg/hostfs links github.com/fsnotify/fsnotify"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, violations(c.all, rules())); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
		})
	}
}
