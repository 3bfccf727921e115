package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu"
)

// controlNode is the device node that NVML opens first. NVIDIA's libraries open nodes in the /dev
// of their process, independent of the driver root.
const controlNode = "/dev/nvidiactl"

// AccessFix returns the fix for a process that has no access to device nodes.
func AccessFix() string {
	return "run its container privileged, or give it the device nodes of the GPUs" +
		dockerFix("--device /dev/nvidiactl --device /dev/nvidia0, and so on for each GPU")
}

// dockerFix returns the options of docker run that fix an error. In a pod it returns nothing: the
// kubelet sets KUBERNETES_SERVICE_HOST there.
func dockerFix(options string) string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return ""
	}
	return " (docker run " + options + ")"
}

// Access returns why this process cannot open a device node, or nil if it can. The kernel also
// checks the device cgroup. Access does not open the node, because that would wake the GPU.
func Access(node string) error {
	err := unix.Access(node, unix.R_OK|unix.W_OK)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this process has no %s", node)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("the device cgroup of this process does not allow %s", node)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("this process may not open %s", node)
	default:
		return nil
	}
}

// initError returns err, from a failed initialization of NVML, with the cause and the fix if they
// are known.
func (s *Session) initError(lib *library, err error) error {
	if call, ok := errors.AsType[*Error](err); ok {
		call.of = lib.path
	}
	fix := s.initFix(Code(err), Access(controlNode))
	if fix == "" {
		return fmt.Errorf("initialize NVML: %w (see the kernel log for NVRM messages)", err)
	}
	return fmt.Errorf("%w: %s (%w)", gpu.ErrNoDriver, fix, err)
}

// initFix returns the fix for an error of nvmlInit, or "" if no fix is known. denied is the reason
// why this process cannot open the control node, or nil if it can.
func (s *Session) initFix(ret gonvml.Return, denied error) string {
	switch {
	case ret == gonvml.ERROR_NO_PERMISSION:
		return "this process may not open " + controlNode + " or a GPU's node: " + AccessFix()
	case ret == gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the library and the loaded kernel module are of different versions: load the module again, or reboot"
	case ret == gonvml.ERROR_UNINITIALIZED, ret == gonvml.ERROR_DRIVER_NOT_LOADED, ret == gonvml.ERROR_LIBRARY_NOT_FOUND:
		return s.notLoadedFix()
	case ret == gonvml.ERROR_UNKNOWN && denied != nil:
		// NVML returns this for a node that the device cgroup denies.
		return denied.Error() + ": " + AccessFix()
	default:
		return ""
	}
}

// notLoadedFix distinguishes two causes of the same NVML error: the kernel module is
// not loaded, or the device nodes are missing.
func (s *Session) notLoadedFix() string {
	if _, err := s.cfg.Proc.Version(); errors.Is(err, fs.ErrNotExist) {
		return "the kernel module nvidia is not loaded: modprobe nvidia"
	}
	return "the kernel module is loaded, but this process has no " + controlNode + ": " + AccessFix() +
		"; a host without the nodes makes them by nvidia-modprobe -c 0 -u"
}
