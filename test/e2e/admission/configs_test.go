package admission_test

import (
	"strings"
	"testing"
)

// generated returns the ConfigMap that the MIG manager publishes for node n1.
func generated() fields {
	return fields{
		"metadata": fields{
			"name": "n1-mig-config", "namespace": "gpu-operator-resources",
			"labels":          fields{"app.kubernetes.io/component": "nvidia-mig-manager", "nvidia.com/node-name": "n1"},
			"ownerReferences": []any{fields{"kind": "Pod", "name": "mig-manager-x", "uid": "1"}},
		},
		"data": fields{"config.yaml": "version: v1\n"},
	}
}

func TestGeneratedConfigsAreWrittenForTheOwnNode(t *testing.T) {
	const (
		own   = "the agent on node n1 writes the ConfigMap n1-mig-config only"
		small = "the agent writes config.yaml of at most 65536 characters, two labels and one owner"
	)
	p := render(t, "mig-manager", "publish", "configs.outrigger-mig-manager.gpu-operator-resources")
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	for name, c := range map[string]change{
		"the configs of the node":    {},
		"of another node":            {at("n2-mig-config", "name", "metadata"), own},
		"the configs of the user":    {at("layouts", "name", "metadata"), own},
		"many characters":            {at(strings.Repeat("x", 65537), "config.yaml", "data"), small},
		"another key":                {at("x", "other", "data"), small},
		"binary data":                {func(o fields) { o["binaryData"] = fields{"a": "b"} }, small},
		"an annotation":              {at(fields{"a": "b"}, "annotations", "metadata"), small},
		"another label":              {at(fields{"a": "b"}, "labels", "metadata"), small},
		"many owners":                {at([]any{fields{}, fields{}}, "ownerReferences", "metadata"), small},
		"a finalizer that blocks it": {at([]any{"a.b/c"}, "finalizers", "metadata"), "adds no finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			request := request{account: "outrigger-mig-manager", bound: "n1", new: with(t, generated(), c.of)}
			p.check(t, request, c.want)
			if request.old = with(t, generated(), nil); c.want != own {
				p.check(t, request, c.want)
			}
		})
	}
	foreign := generated()
	delete(part(foreign, "metadata"), "labels")
	p.check(t, request{account: "outrigger-mig-manager", bound: "n1", old: foreign, new: generated()}, own)
}
