// Package holders finds the processes that keep a kernel module from being unloaded: those
// that have one of its devices open or mapped. It tells which container, pod or unit they
// belong to.
package holders

// Root is where the host's files are.
type Root struct {
	// Proc is the folder of the host's procfs. If empty, it is /proc.
	Proc string
	// PodLogs is the kubelet's folder with the logs of pods, by which the names of pods are
	// known. If empty, it is /var/log/pods.
	PodLogs string
}

// Devices are character devices with one major number.
type Devices struct {
	Major uint32
	// Minors are the minor numbers; nil means all.
	Minors []uint32
}

// Holder is a process that holds devices.
type Holder struct {
	PID int `json:"pid"`
	// Command is the name of the process, of at most 15 bytes. The process can set it.
	Command string `json:"command"`
	// Devices are the paths of the devices, as the process sees them.
	Devices []string `json:"devices"`
	// Pod, Container and Unit are zero for a process that is in none.
	Pod Pod `json:"pod,omitzero"`
	// Container is the id of the container.
	Container string `json:"container,omitempty"`
	// Unit is the unit of systemd: a service, or the scope of a session.
	Unit string `json:"unit,omitempty"`
}

// Pod is the pod of a process. The name is empty if it is not known.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}
