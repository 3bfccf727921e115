package charts_test

import (
	"maps"
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

// programs names the program of each container that has another name.
var programs = map[string]string{"presence": "feature-discovery", "upgrades": "driver-loader", "gpu-sim": "gpu-sim-node"}

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

// helpOf returns what a built program prints with --help.
func helpOf(t *testing.T, program string) string {
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
	return string(help)
}

// variables returns the variables that a built program reads.
func variables(t *testing.T, program string) []string {
	t.Helper()
	// NVIDIA's container runtime reads these.
	found := []string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	for _, match := range helpVariable.FindAllStringSubmatch(helpOf(t, program), -1) {
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

// inPod are variables whose values the pod's volumes, ports and probes have too. Only values of the chart
// change them.
var inPod = []string{"CONFIG_DIR", "DRIVER_ROOT_CTR_PATH", "GFD_CONFIG_DIR", "LISTEN_ADDRESS", "TOOLKIT_INSTALL_DIR"}

// TestTheUserCanReplaceAVariableByItsOtherNames sets each other name of a variable that a chart sets:
// programs read a variable by its first name, so both together would leave the user's without effect.
func TestTheUserCanReplaceAVariableByItsOtherNames(t *testing.T) {
	for _, chart := range names(t) {
		if _, ok := readSchema(t, chart).Properties["env"]; !ok {
			continue
		}
		for _, v := range variants(t, chart) {
			theirs := map[string]bool{}
			userVariables(v.values, theirs)
			c := containers(t, v.objects)[0]
			sets := map[string]bool{}
			for _, v := range c.Env {
				sets[v.Name] = true
			}
			flags := otherNames(t, c.Name)
			for i := 1; slices.ContainsFunc(flags, func(names []string) bool { return i < len(names) }); i++ {
				// The other name with this number, of all flags at once. earlier has the names before it.
				var env []any
				earlier := map[string][]string{}
				for _, names := range flags {
					if i >= len(names) || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(inPod, n) }) || sets[names[i]] || theirs[names[i]] {
						continue
					}
					env = append(env, map[string]any{"name": names[i], "value": "other"})
					earlier[names[i]] = names[:i]
				}
				if len(env) == 0 {
					continue
				}
				values := maps.Clone(v.values)
				if values == nil {
					values = map[string]any{}
				}
				values["env"] = env
				out, err := release{chart: chart, values: values}.render()
				if err != nil {
					t.Fatalf("%s: %v: %v", v.path(), env, err)
				}
				for _, v := range containers(t, out)[0].Env {
					for other, names := range earlier {
						// Of several variables of a flag, the first one wins.
						if sets[v.Name] && !theirs[v.Name] && slices.Contains(names, v.Name) {
							t.Errorf("%s: the chart sets %s, and the user %s", chart, v.Name, other)
						}
					}
				}
			}
		}
	}
}

var helpNames = regexp.MustCompile(`\[(\$[A-Z_]+(?:, \$[A-Z_]+)+)\]`)

// otherNames returns the names of each flag of a program that has several variables.
func otherNames(t *testing.T, program string) [][]string {
	t.Helper()
	var found [][]string
	for _, match := range helpNames.FindAllStringSubmatch(helpOf(t, program), -1) {
		found = append(found, strings.Split(strings.ReplaceAll(match[1], "$", ""), ", "))
	}
	return found
}

// TestTheRuntimeClassHasTheNameOfTheUsersVariable: a pod of a RuntimeClass needs a runtime of its name.
func TestTheRuntimeClassHasTheNameOfTheUsersVariable(t *testing.T) {
	for name, values := range map[string]string{
		"NVIDIA's name":                 "toolkit.env[0].name=CONTAINERD_RUNTIME_CLASS,toolkit.env[0].value=gpus",
		"our name":                      "env[0].name=NVIDIA_RUNTIME_NAME,env[0].value=gpus",
		"the variable before the value": "runtime.name=other,env[0].name=DOCKER_RUNTIME_NAME,env[0].value=gpus",
		"the first name wins":           "env[0].name=DOCKER_RUNTIME_NAME,env[0].value=other,env[1].name=NVIDIA_RUNTIME_NAME,env[1].value=gpus",
		"the value":                     "runtime.name=gpus",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := release{chart: "container-toolkit", values: set(t, values)}.render()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "\nhandler: gpus\n") || strings.Contains(out, "\nhandler: nvidia\n") || strings.Contains(out, "\nhandler: other\n") {
				t.Errorf("the chart has no RuntimeClass gpus:\n%s", out)
			}
		})
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
		var env []any
		for _, v := range containers(t, text)[0].Env {
			env = append(env, map[string]any{"name": v.Name, "value": "/elsewhere"})
		}
		out, err := release{chart: chart, values: map[string]any{"env": env}}.render()
		if err != nil {
			t.Fatalf("%s: %v", chart, err)
		}
		for i, c := range containers(t, out) {
			seen := map[string]string{}
			for _, v := range c.Env {
				if _, twice := seen[v.Name]; twice {
					t.Errorf("%s: container %s has %s twice", chart, c.Name, v.Name)
				}
				seen[v.Name] = v.Value
			}
			for _, v := range env {
				if name := v.(map[string]any)["name"].(string); i == 0 && seen[name] != "/elsewhere" {
					t.Errorf("%s: the chart does not set %s as the user does", chart, name)
				}
			}
		}
	}
}
