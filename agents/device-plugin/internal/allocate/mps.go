package allocate

import (
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/resource"
)

// mpsRootCtr is the folder of the MPS daemons in a container.
const mpsRootCtr = "/mps"

// MPSFolder returns the name of the folder, below the root of all MPS daemons, of the daemon
// that serves the device. Each GPU has a daemon of its own, unless a container can get
// several GPUs of the resource: a program is a client of one daemon only.
func MPSFolder(r resource.Resource, d resource.Device) string {
	if r.FailRequestsGreaterThanOne {
		return string(d.UUID)
	}
	return r.Name
}

// MPSPipe returns the folder through which the daemon of a folder and its clients
// communicate.
func MPSPipe(root, folder string) string { return filepath.Join(root, folder, "pipe") }

// MPSShm returns the folder for the shared memory of that daemon and its clients.
func MPSShm(root, folder string) string { return filepath.Join(root, folder, "shm") }

// mps adds what makes the container a client of the daemon. Its path in the container is
// that of NVIDIA's device plugin.
func addMPSClient(resp *pluginapi.ContainerAllocateResponse, root, folder, res string) {
	pipe := MPSPipe(mpsRootCtr, res)
	resp.Envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe
	resp.Mounts = append(resp.Mounts,
		&pluginapi.Mount{ContainerPath: pipe, HostPath: MPSPipe(root, folder)},
		&pluginapi.Mount{ContainerPath: "/dev/shm", HostPath: MPSShm(root, folder)},
	)
}
