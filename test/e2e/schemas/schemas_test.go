package schemas_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"

	"outrigger.dev/test/e2e/schemas"
	"outrigger.dev/test/e2e/stack"
)

const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, labels: {app: agent}}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
        - name: agent
          image: agent:1
          resources: {limits: {cpu: 0.5, memory: 64Mi, nvidia.com/gpu: 1}}
          livenessProbe: {httpGet: {path: /, port: 8080}}
`

// TestWhatASchemaRejects validates objects that an API server rejects, or the fields of
// which it ignores.
func TestWhatASchemaRejects(parent *testing.T) {
	checks := map[string]*check{}
	for name, test := range map[string]struct {
		version string
		object  string
		// old in the object is new instead.
		old, new string
		// want is in the error; there is no error if it is empty.
		want string
	}{
		"a valid object": {object: daemonSet},
		"a field that is not there": {
			object: daemonSet, old: "image: agent:1", new: "image: agent:1\n          imagePulPolicy: Never",
			want: "at '/spec/template/spec/containers/0': additional properties 'imagePulPolicy' not allowed",
		},
		"a field in the wrong place": {
			object: daemonSet, old: "containers:", new: "hostPort: 1\n      containers:",
			want: "at '/spec/template/spec': additional properties 'hostPort' not allowed",
		},
		"a field of a list": {
			object: daemonSet, old: "httpGet: {path: /, port: 8080}", new: "httpGet: [{path: /, port: 8080}]",
			want: "at '/spec/template/spec/containers/0/livenessProbe/httpGet': got array, want object",
		},
		"a number as a label":     {object: daemonSet, old: "labels: {app: agent}}\nspec", new: "labels: {app: 1}}\nspec", want: "at '/metadata/labels/app': got number, want string"},
		"a field that is missing": {object: daemonSet, old: "selector: {matchLabels: {app: agent}}", new: "minReadySeconds: 1", want: "missing property 'selector'"},
		"a field twice":           {object: daemonSet, old: "spec:\n  selector", new: "spec:\n  minReadySeconds: 1\n  minReadySeconds: 2\n  selector", want: `"minReadySeconds" already set`},
		"a fraction as a port":    {object: daemonSet, old: "port: 8080", new: "port: 80.5", want: "at '/spec/template/spec/containers/0/livenessProbe/httpGet/port': got number, want integer or string"},
		"an object as a quantity": {object: daemonSet, old: "memory: 64Mi", new: "memory: {}", want: "at '/spec/template/spec/containers/0/resources/limits/memory': got object, want number or string"},
		"a kind without version":  {object: daemonSet, old: "apps/v1", new: "v1", want: "could not find schema for DaemonSet"},
		"a kind of a later Kubernetes": {
			version: "v1.33.9", object: "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec: {}",
			want: "could not find schema for DeviceClass",
		},
		"a kind since this Kubernetes": {version: "v1.34.4", object: "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec: {}"},
		"a field of a later Kubernetes": {
			version: "v1.30.14", object: "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {resources: {limits: {cpu: 1}}, containers: [{name: c}]}",
			want: "at '/spec': additional properties 'resources' not allowed",
		},
	} {
		parent.Run(name, func(t *testing.T) {
			if test.version == "" {
				test.version = "v1.37.1"
			}
			if !strings.Contains(test.object, test.old) {
				t.Fatalf("the object has no %q", test.old)
			}
			c, ok := checks[test.version]
			if !ok {
				c = newCheck(parent, test.version)
				checks[test.version] = c
			}
			c.expect(t, strings.Replace(test.object, test.old, test.new, 1), test.want)
		})
	}
}

// expect validates an object, and expects an error with the text want, or none if it is empty.
func (c *check) expect(t *testing.T, object, want string) {
	t.Helper()
	err := c.validate(resource.Resource{Bytes: []byte(object)})
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error is %v, want %q\n%s", err, want, object)
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [size]
              properties:
                size: {type: integer}
                port: {x-kubernetes-int-or-string: true}
                note: {type: string, nullable: true}
                rest: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {size: {type: integer}}}
`

func TestCustomResources(t *testing.T) {
	c := newCheck(t, "v1.37.1", []byte(definition))
	c.expect(t, definition, "")
	const object = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: "
	for spec, want := range map[string]string{
		"{size: 1, port: a, note: null, rest: {size: 1, x: y}}": "",
		"{size: 1, port: 1}":      "",
		"{port: 1}":               "missing property 'size'",
		"{size: 1, sise: 1}":      "additional properties 'sise' not allowed",
		"{size: 1, port: []}":     "got array, want integer or string",
		"{size: 1}\nmetadate: {}": "additional properties 'metadate' not allowed",
	} {
		c.expect(t, object+spec, want)
	}
}

// TestSchemasAreThoseOfTheModule compares the schemas with those in Kubernetes' module, for
// the versions that Go's module cache has.
func TestSchemasAreThoseOfTheModule(t *testing.T) {
	versions, err := schemas.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			swagger, err := os.ReadFile(filepath.Join(moduleCache(t), "k8s.io", "kubernetes@"+version, "api/openapi-spec/swagger.json"))
			if err != nil {
				t.Skip("this machine has no module k8s.io/kubernetes " + version)
			}
			want, err := schemas.Reduce(swagger)
			if err != nil {
				t.Fatal(err)
			}
			got, err := schemas.Load(version)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Error("the schemas differ from the module's; write them with: go generate ./schemas")
			}
		})
	}
}

// TestClusterIsAmongTheVersions keeps the schemas up with the Kubernetes of the tests.
func TestClusterIsAmongTheVersions(t *testing.T) {
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "test/cluster/components/kubernetes/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the cluster's go.mod does not require k8s.io/kubernetes")
	}
	if _, err := schemas.Load(string(found[1])); err != nil {
		t.Errorf("%v; add it to go:generate in schemas.go, and run: go generate ./schemas", err)
	}
}

// moduleCache returns the folder of Go's module cache.
func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
