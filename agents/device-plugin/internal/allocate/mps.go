package allocate

import (
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/resource"
)

// mpsRootCtr is the folder of the MPS daemons in a container.
const mpsRootCtr = "/mps"

// MPSFolder returns the name of the folder of the daemon that serves the device. The folder
// is below the root of all MPS daemons. Each GPU has a separate daemon, unless a container
// can get several GPUs of the resource, because a program can be a client of only one daemon.
func MPSFolder(r resource.Resource, d resource.Device) string {
	if r.FailRequestsGreaterThanOne {
		return string(d.UUID)
	}
	return r.Name
}

// MPSPipe returns the folder with the pipes between a daemon and its clients.
func MPSPipe(root, folder string) string { return filepath.Join(root, folder, "pipe") }

// MPSShm returns the folder for the shared memory of a daemon and its clients.
func MPSShm(root, folder string) string { return filepath.Join(root, folder, "shm") }

// addMPSClient adds the variable and the mounts that make the container a client of the
// daemon. The path in the container is the same as with NVIDIA's device plugin.
func addMPSClient(resp *pluginapi.ContainerAllocateResponse, root, folder, res string) {
	pipe := MPSPipe(mpsRootCtr, res)
	resp.Envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe
	resp.Mounts = append(resp.Mounts,
		&pluginapi.Mount{ContainerPath: pipe, HostPath: MPSPipe(root, folder)},
		&pluginapi.Mount{ContainerPath: "/dev/shm", HostPath: MPSShm(root, folder)},
	)
}
