package allocate

import (
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// mpsRootCtr is the folder of the MPS daemons in a container.
const mpsRootCtr = "/mps"

// MPSPipe returns the folder below the root of all MPS daemons through which the daemon of
// a resource and its clients communicate.
func MPSPipe(root, res string) string { return filepath.Join(root, res, "pipe") }

// MPSShm returns the folder for the shared memory of that daemon and its clients.
func MPSShm(root, res string) string { return filepath.Join(root, res, "shm") }

// mps adds what makes the container a client of the resource's MPS daemon.
func mps(resp *pluginapi.ContainerAllocateResponse, root, res string) {
	pipe := MPSPipe(mpsRootCtr, res)
	resp.Envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe
	resp.Mounts = append(resp.Mounts,
		&pluginapi.Mount{ContainerPath: pipe, HostPath: MPSPipe(root, res)},
		&pluginapi.Mount{ContainerPath: "/dev/shm", HostPath: MPSShm(root, res)},
	)
}
