// Package category names the groups of flags in the help of all programs. The help shows them in
// the order of the alphabet.
package category

const (
	// Build is for flags about the build and the signatures of kernel modules.
	Build = "Build of kernel modules"
	// Config is for flags that select the config file.
	Config = "Config file"
	// Containers is for flags that change how containers get devices.
	Containers = "Containers and CDI"
	// Driver is for flags that select the driver and its kernel modules.
	Driver = "Driver"
	// Engine is for flags about the container engine and its config.
	Engine = "Container engine"
	// Health is for flags that decide whether a device or a node is healthy.
	Health = "Health"
	// Kubernetes is for flags about the API server, the kubelet, and objects of the cluster.
	Kubernetes = "Kubernetes"
	// Labels is for flags about labels of the Node.
	Labels = "Labels"
	// Logging is for flags about the log of the program.
	Logging = "Logging"
	// Metrics is for flags about the metrics of GPUs.
	Metrics = "Metrics"
	// MIG is for flags about MIG configs, and about the users of GPUs that a config changes.
	MIG = "MIG"
	// Node is for flags that locate the driver, and the folders and devices of the node.
	Node = "Node and driver"
	// Release is for flags about the objects that the orchestrator applies.
	Release = "Release"
	// Resources is for flags that decide which resources are advertised.
	Resources = "Resources and sharing"
	// Server is for flags about the pages that the program serves.
	Server = "Server"
	// Tools is for flags about the tools that the agent installs on the host.
	Tools = "Installed tools"
	// NoEffect is for flags that have no effect.
	NoEffect = "Without effect, accepted for compatibility"
)
