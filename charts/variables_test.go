package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
)

// container is what the tests read of a container.
type container struct {
	Name    string
	Command []string
	Env     []struct{ Name, Value string }
}

// containers returns the containers of all DaemonSets and PodTemplates among rendered objects.
func containers(t *testing.T, rendered string) []container {
	t.Helper()
	var found []container
	for text := range strings.SplitSeq(rendered, "\n---\n") {
		type template struct {
			Spec struct{ Containers []container }
		}
		var object struct {
			Spec     struct{ Template template }
			Template template
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		found = append(found, object.Spec.Template.Spec.Containers...)
		found = append(found, object.Template.Spec.Containers...)
	}
	return found
}

// userVariables adds the names of the variables that a user sets: the values
// named env, at any depth.
func userVariables(values map[string]any, names map[string]bool) {
	for key, value := range values {
		switch v := value.(type) {
		case map[string]any:
			userVariables(v, names)
		case []any:
			for _, entry := range v {
				if variable, ok := entry.(map[string]any); ok && key == "env" {
					names[variable["name"].(string)] = true
				}
			}
		}
	}
}

var helpVariable = regexp.MustCompile(`\$([A-Z_]+)`)

// programs names the program of each container that does not have the program's name.
var programs = map[string]string{"presence": "feature-discovery", "upgrades": "driver-loader"}

// TestProgramsKnowTheirVariables compares the variables that a chart sets with
// what the program in the container prints with --help: a variable of another
// name would have no effect.
func TestProgramsKnowTheirVariables(t *testing.T) {
	for _, chart := range names(t) {
		t.Run(chart, func(t *testing.T) {
			known := map[string][]string{}
			for _, v := range variants(t, chart) {
				theirs := map[string]bool{}
				userVariables(v.values, theirs)
				for _, c := range containers(t, v.objects) {
					program := c.Name
					if other := programs[program]; other != "" {
						program = other
					}
					if len(c.Command) > 0 {
						program = filepath.Base(c.Command[0])
					}
					if known[program] == nil {
						known[program] = variables(t, program)
					}
					for _, v := range c.Env {
						if !theirs[v.Name] && !slices.Contains(known[program], v.Name) {
							t.Errorf("%s has no flag with the variable %s", program, v.Name)
						}
					}
				}
			}
		})
	}
}

// variables returns the variables that a built program reads.
func variables(t *testing.T, program string) []string {
	t.Helper()
	dir := os.Getenv("OUTRIGGER_BIN")
	if dir == "" {
		dir = "../bin"
	}
	path := filepath.Join(dir, program)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("bin/%s is missing: make build", program)
	}
	help, err := exec.CommandContext(t.Context(), path, "--help").Output()
	if err != nil {
		t.Fatalf("%s --help: %v", program, err)
	}
	// NVIDIA's container runtime reads these.
	found := []string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	for _, match := range helpVariable.FindAllStringSubmatch(string(help), -1) {
		found = append(found, match[1])
	}
	if len(found) == 2 {
		t.Fatalf("%s --help names no variable", program)
	}
	return found
}

// TestAgentsOfAParentHaveOneConfig compares the variables by which the agents of a node
// find what is shared and what it is called.
func TestAgentsOfAParentHaveOneConfig(t *testing.T) {
	out, err := release{chart: "outrigger", values: valuesOf(t, "testdata/outrigger/shared.values.yaml")}.render()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]string{}
	for _, c := range containers(t, out) {
		got[c.Name] = map[string]string{}
		for _, v := range c.Env {
			got[c.Name][v.Name] = v.Value
		}
	}
	for name, want := range map[string]string{
		"CONFIG_FILE_SRCDIR": "/available-configs", "DEFAULT_CONFIG": "shared", "FALLBACK_STRATEGIES": "named,single",
		"MIG_STRATEGY": "mixed", "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver",
	} {
		for _, agent := range []string{"device-plugin", "feature-discovery"} {
			if got[agent][name] != want {
				t.Errorf("%s has %s=%q, want %q", agent, name, got[agent][name], want)
			}
		}
	}
	if got, want := strings.Count(out, "name: outrigger-gpu-configs\n"), 3; got != want {
		t.Errorf("the ConfigMap is named %d times, want %d: once itself and by each agent", got, want)
	}
	if got := strings.Count(out, "key: startup-taint.cluster-autoscaler.kubernetes.io/gpu-not-ready\n"); got != 7 {
		t.Errorf("%d DaemonSets and PodTemplates tolerate the start-up taint, want 7", got)
	}
}

var templateVariable = regexp.MustCompile(`(?m)^ *- name: ([A-Z_]+)$|\(list "([A-Z_]+)"`)

// TestCasesSetEveryVariable finds a variable of a template that no case in
// testdata sets, so that no test would see it.
func TestCasesSetEveryVariable(t *testing.T) {
	for _, name := range names(t) {
		c, err := charts.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, v := range variants(t, name) {
			all.WriteString(v.objects)
		}
		for _, template := range c.Templates {
			for _, match := range templateVariable.FindAllStringSubmatch(string(template.Data), -1) {
				if variable := match[1] + match[2]; !strings.Contains(all.String(), "name: "+variable+"\n") {
					t.Errorf("no case of %s sets %s", name, variable)
				}
			}
		}
	}
}

// TestTheUserCanReplaceAVariable sets each variable that a chart sets itself:
// server-side apply rejects a name that is there twice.
func TestTheUserCanReplaceAVariable(t *testing.T) {
	for _, chart := range names(t) {
		if _, ok := readSchema(t, chart).Properties["env"]; !ok {
			continue
		}
		text, err := release{chart: chart}.render()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range containers(t, text)[0].Env {
			out, err := release{chart: chart, values: set(t, "env[0].name="+v.Name+",env[0].value=/elsewhere")}.render()
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			if !strings.Contains(out, "/elsewhere") {
				t.Errorf("%s: the chart does not set %s as the user does", chart, v.Name)
			}
			for _, c := range containers(t, out) {
				seen := map[string]bool{}
				for _, v := range c.Env {
					if seen[v.Name] {
						t.Errorf("%s: container %s has %s twice", chart, c.Name, v.Name)
					}
					seen[v.Name] = true
				}
			}
		}
	}
}
