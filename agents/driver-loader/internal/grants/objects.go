package grants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
)

// UnmarshalJSON decodes a Node of the API into the fields of Node.
func (n *Node) UnmarshalJSON(data []byte) error {
	var of struct {
		Metadata struct {
			Name        string            `json:"name"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return fmt.Errorf("decode a node: %w", err)
	}
	labels, annotations := of.Metadata.Labels, of.Metadata.Annotations
	*n = Node{
		Name: of.Metadata.Name, Cordoned: of.Spec.Unschedulable, NotReady: true,
		Skip: labels[upgrade.SkipLabel] == "true", Requested: annotations[upgrade.RequestedAnnotation] == "true",
		State: upgrade.State(labels[upgrade.StateLabel]), Driver: validName(annotations[upgrade.DriverAnnotation]),
		Failed: validName(annotations[upgrade.FailedAnnotation]), DaemonSet: validName(annotations[upgrade.DaemonSetAnnotation]),
		Granted: annotations[upgrade.GrantAnnotation],
		// The labels of NVIDIA's GPU Operator, which are in the affinity of the chart.
		Out: labels["nvidia.com/gpu.deploy.driver"] == "false" || labels["nvidia.com/gpu.deploy.operands"] == "false",
	}
	for key := range labels {
		n.GPU = n.GPU || strings.HasPrefix(key, "nvidia.com/") || key == "feature.node.kubernetes.io/pci-10de.present"
	}
	for _, c := range of.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			n.NotReady = false
		}
	}
	return nil
}

// maxName is the longest name of a driver or DaemonSet, in bytes. Longer ones would fill the ConfigMap.
const maxName = 253

// validName returns a name that a node reports, or "" if it is too long.
func validName(s string) string {
	if len(s) > maxName {
		return ""
	}
	return s
}

// listedNode is a Node from a list of the API server, with its version.
type listedNode struct {
	Node
	version string
}

// UnmarshalJSON decodes a Node of the API.
func (r *listedNode) UnmarshalJSON(data []byte) error {
	var of struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return fmt.Errorf("decode a node: %w", err)
	}
	r.version = of.Metadata.ResourceVersion
	return r.Node.UnmarshalJSON(data)
}

// daemonSet has the fields of a DaemonSet that determine its limits. Only DaemonSets of the driver
// loader have a policy.
type daemonSet struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct {
						Name  string `json:"name"`
						Value string `json:"value"`
					} `json:"env"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Desired int `json:"desiredNumberScheduled"`
	} `json:"status"`
}

// policyVariable is the environment variable with the upgrade policy, in pods of the driver loader.
const policyVariable = "UPGRADE_POLICY"

// limits returns the DaemonSet with its limits. It reports false without a valid policy.
func (d daemonSet) limits() (s DaemonSet, has bool) {
	s = DaemonSet{Name: d.Metadata.Namespace + "/" + d.Metadata.Name, Nodes: d.Status.Desired}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, v := range c.Env {
			if v.Name == policyVariable && v.Value != "" {
				p, err := upgrade.ParsePolicy([]byte(v.Value))
				return DaemonSet{Name: s.Name, Nodes: s.Nodes, Policy: p}, err == nil // agents do not start with an invalid policy
			}
		}
	}
	return s, false
}

// instanceLabel is the label with the Helm release, or the pool, of a DaemonSet.
const instanceLabel = "app.kubernetes.io/instance"

// setsOf returns the DaemonSets that have limits. DaemonSets of one release have one policy and differ only in the kernel
// or the distribution of their nodes, so Nodes is the number for all of them: a percentage is a percentage of these nodes.
func setsOf(all []daemonSet) []DaemonSet {
	sets, nodes := []DaemonSet{}, map[string]int{}
	var releases []string
	for _, d := range all {
		s, has := d.limits()
		if !has {
			continue
		}
		release := cmp.Or(d.Metadata.Labels[instanceLabel], d.Metadata.Name)
		nodes[release] += s.Nodes
		sets, releases = append(sets, s), append(releases, release)
	}
	for i := range sets {
		sets[i].Nodes = nodes[releases[i]]
	}
	return sets
}

// board is the ConfigMap upgrade.BoardName. A writer announces its grants there before it writes
// them, and only if the ConfigMap has not changed since it was read. So only one of several writers
// decides at a time.
type board struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// begunKey is the key of the announced grants: the versions of the Nodes, by name.
const begunKey = "begun"

// begun returns the versions of the Nodes with announced grants. While a Node still has this version,
// its grant may be written.
func (b board) begun() map[string]string {
	versions := map[string]string{}
	_ = json.Unmarshal([]byte(b.Data[begunKey]), &versions) // a value that cannot be read announces no grants
	return versions
}

// boardData returns the data of the ConfigMap, without announced grants.
func boardData(waiting map[string]upgrade.Waiting) map[string]string {
	data := map[string]string{}
	for name, w := range waiting {
		_, name, _ = strings.Cut(name, "/")
		data[upgrade.WaitingPrefix+name] = encode(w)
	}
	return data
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and maps of strings can always be encoded
	}
	return string(data)
}
