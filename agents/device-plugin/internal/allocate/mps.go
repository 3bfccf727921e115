package allocate

import (
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// mpsRootCtr is the folder of the MPS daemons as containers see it.
const mpsRootCtr = "/mps"

// MPSPipe returns the folder of the pipes of the MPS daemon that serves a
// resource, under the root of all MPS daemons: the daemon and the containers
// meet there.
func MPSPipe(root, res string) string { return filepath.Join(root, res, "pipe") }

// MPSShm returns the folder of the shared memory of all MPS daemons and their
// clients.
func MPSShm(root string) string { return filepath.Join(root, "shm") }

// mps adds what makes the container a client of the resource's MPS daemon.
func mps(resp *pluginapi.ContainerAllocateResponse, root, res string) {
	pipe := MPSPipe(mpsRootCtr, res)
	resp.Envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe
	resp.Mounts = append(resp.Mounts,
		&pluginapi.Mount{ContainerPath: pipe, HostPath: MPSPipe(root, res)},
		&pluginapi.Mount{ContainerPath: "/dev/shm", HostPath: MPSShm(root)},
	)
}
