package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Source is an installation of NVIDIA's GPU Operator.
type Source struct {
	// Values are the values of its chart, or the same keys from the spec of its ClusterPolicy.
	Values map[string]any
	// Drivers are its NVIDIADriver objects.
	Drivers []unstructured.Unstructured
	// From names what has been read, and Unread says what could not be read, and why.
	From   []string
	Unread []string
	// Cluster is set if a GPUCluster exists: the nodes have the DRA driver and not the device plugin.
	Cluster bool
}

// Read reads YAML documents: a ClusterPolicy, NVIDIADrivers and a GPUCluster of the GPU Operator, or the values of its
// chart. A List has the same objects in its items. The name of the file is for errors.
func Read(name string, text []byte, into *Source) error {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := into.add(document); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// add adds an object, a List of objects, or values.
func (s *Source) add(document map[string]any) error {
	if items, is := document["items"].([]any); is {
		for _, item := range items {
			if object, is := item.(map[string]any); is {
				if err := s.add(object); err != nil {
					return err
				}
			}
		}
		return nil
	}
	kind, _ := document["kind"].(string)
	api, _ := document["apiVersion"].(string)
	switch {
	case len(document) == 0:
	case kind == "" && api == "":
		s.Values = document
	case api == "nvidia.com/v1" && kind == "ClusterPolicy":
		spec, _ := document["spec"].(map[string]any)
		s.Values = fromPolicy(spec)
	case api == "nvidia.com/v1alpha1" && kind == "NVIDIADriver":
		s.Drivers = append(s.Drivers, unstructured.Unstructured{Object: document})
	case api == "nvidia.com/v1alpha1" && kind == "GPUCluster":
		s.Cluster = true
	default:
		return fmt.Errorf("%s of %s: it is neither a ClusterPolicy, an NVIDIADriver or a GPUCluster of nvidia.com, nor a values file", kind, api)
	}
	return nil
}

// fromPolicy returns the values of NVIDIA's chart for the spec of a ClusterPolicy. Most keys are the same. Sections that
// the spec omits have the defaults of the GPU Operator: the components in enabledByDefault are enabled.
func fromPolicy(spec map[string]any) map[string]any {
	values := clone(spec)
	for _, key := range enabledByDefault {
		section := child(values, key)
		if section["enabled"] == nil {
			section["enabled"] = true
		}
	}
	driver := child(values, "driver")
	if use, is := driver["useNvidiaDriverCRD"]; is {
		delete(driver, "useNvidiaDriverCRD")
		driver["nvidiaDriverCRD"] = map[string]any{"enabled": use}
	}
	if policy, is := driver["upgradePolicy"].(map[string]any); is {
		rename(policy, "podDeletion", "gpuPodDeletion")
	}
	return values
}

// enabledByDefault are the components that the GPU Operator installs unless its ClusterPolicy disables them.
var enabledByDefault = []string{"driver", "toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager"} //nolint:gochecknoglobals // it is constant

// rename moves the value of a key to another key.
func rename(values map[string]any, from, to string) {
	if value, is := values[from]; is {
		delete(values, from)
		values[to] = value
	}
}

// child returns the map at a key. If there is none, it adds an empty one.
func child(values map[string]any, key string) map[string]any {
	found, is := values[key].(map[string]any)
	if !is {
		found = map[string]any{}
		values[key] = found
	}
	return found
}

// clone returns a copy of values. Changes of maps and lists in it do not change the original.
func clone(values map[string]any) map[string]any {
	copied := maps.Clone(values)
	if copied == nil {
		return map[string]any{}
	}
	for key, value := range copied {
		copied[key] = cloneValue(value)
	}
	return copied
}

func cloneValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return clone(value)
	case []any:
		copied := make([]any, len(value))
		for i, item := range value {
			copied[i] = cloneValue(item)
		}
		return copied
	}
	return value
}
