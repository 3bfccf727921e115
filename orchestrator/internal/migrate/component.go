// Package migrate moves a cluster from NVIDIA's GPU Operator to Outrigger. It derives values of the chart outrigger,
// with a list of all differences, from the values or the objects of the GPU Operator. It then hands the nodes over,
// component by component.
//
// Both stacks schedule their DaemonSets by the same labels of nodes, nvidia.com/gpu.deploy.COMPONENT. NVIDIA's
// DaemonSets select the value "true". During a migration, Outrigger's DaemonSets select the value Ours. So the label
// of a node says which of the two runs there, and is the only state of a migration.
package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// The values of the label of a component.
const (
	// Theirs selects the DaemonSets of NVIDIA's GPU Operator.
	Theirs = "true"
	// Ours selects the DaemonSets of Outrigger.
	Ours = "outrigger"
	// Between selects neither: the pods of one side are ending.
	Between = "paused-for-outrigger"
)

// deploy is the prefix of the labels that schedule the DaemonSets of both stacks.
const deploy = "nvidia.com/gpu.deploy."

// Component is a part of the GPU Operator that Outrigger replaces.
type Component struct {
	// Name is the name of the component for users: "device-plugin".
	Name string `json:"name"`
	// Key is the key of its values, which is the same in both charts. Chart is the name of Outrigger's chart.
	Key   string `json:"key"`
	Chart string `json:"chart"`
	// Label schedules the component. More lists labels of other DaemonSets of NVIDIA's that serve only this component,
	// and that Outrigger does not have.
	Label string   `json:"label"`
	More  []string `json:"more,omitempty"`
	// Offers says that the GPUs which the node offers depend on the component.
	Offers bool `json:"-"`
	// Effect describes the interruption of a node by the hand-over.
	Effect string `json:"effect"`
}

// Labels returns all labels that the hand-over of the component changes.
func (c Component) Labels() []string { return append([]string{c.Label}, c.More...) }

// Driver is the name of the component that the running GPU pods depend on.
const Driver = "driver"

// Components returns all components in the order of a migration. The components that are easy to replace come first.
// The driver is last, because its hand-over needs a node without GPU pods.
func Components() []Component {
	return []Component{
		{
			Name: "dcgm-exporter", Key: "dcgmExporter", Chart: "dcgm-exporter", Label: deploy + "dcgm-exporter", More: []string{deploy + "dcgm"},
			Effect: "metrics are missing for some seconds; GPU pods keep running",
		},
		{
			Name: "feature-discovery", Key: "gfd", Chart: "feature-discovery", Label: deploy + "gpu-feature-discovery",
			Effect: "the labels of the GPUs stay, or are missing for some seconds; GPU pods keep running",
		},
		{
			Name: "mig-manager", Key: "migManager", Chart: "mig-manager", Label: deploy + "mig-manager",
			Effect: "the MIG devices stay; a change of nvidia.com/mig.config waits for some seconds; GPU pods keep running",
		},
		{
			Name: "device-plugin", Key: "devicePlugin", Chart: "device-plugin", Label: deploy + "device-plugin", Offers: true,
			Effect: "the node offers no GPU to new pods for some seconds; GPU pods keep running and keep their GPUs, except pods that share a GPU by MPS",
		},
		{
			Name: "toolkit", Key: "toolkit", Chart: "container-toolkit", Label: deploy + "container-toolkit",
			Effect: "the container engine may restart, and new GPU containers wait for some seconds; running containers keep running",
		},
		{
			Name: Driver, Key: "driver", Chart: "driver-loader", Label: deploy + "driver", More: []string{deploy + "operator-validator"}, Offers: true,
			Effect: "NVIDIA's driver container tries to unload the driver when it ends: the GPU pods of the node must end first",
		},
	}
}

// Named returns the component with a name. The error lists all names.
func Named(name string) (Component, error) {
	all := Components()
	i := slices.IndexFunc(all, func(c Component) bool { return c.Name == name || c.Chart == name || c.Key == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.Name
		}
		return Component{}, fmt.Errorf("there is no component %q: use %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}
