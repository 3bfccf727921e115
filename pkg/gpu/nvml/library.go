package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// required are the symbols without which there is no work to do. All are in
// drivers since R450. A call of a symbol that the library lacks would kill the
// process, so they are looked up before the first call.
func required() []string {
	return []string{
		"nvmlInit_v2",
		"nvmlShutdown",
		"nvmlErrorString",
		"nvmlSystemGetDriverVersion",
		"nvmlSystemGetNVMLVersion",
		"nvmlSystemGetCudaDriverVersion_v2",
		"nvmlDeviceGetCount_v2",
		"nvmlDeviceGetHandleByIndex_v2",
		"nvmlDeviceGetUUID",
		"nvmlDeviceGetName",
		"nvmlDeviceGetMinorNumber",
		"nvmlDeviceGetPciInfo_v3",
		"nvmlDeviceGetMemoryInfo",
		"nvmlDeviceGetCudaComputeCapability",
		"nvmlDeviceGetTopologyCommonAncestor",
		"nvmlDeviceGetSupportedEventTypes",
		"nvmlDeviceRegisterEvents",
		"nvmlEventSetCreate",
		"nvmlEventSetWait_v2",
		"nvmlEventSetFree",
	}
}

// The symbols that a driver may lack: what they tell is left out then.
const (
	symBrand        = "nvmlDeviceGetBrand"
	symArchitecture = "nvmlDeviceGetArchitecture"
	symLinkState    = "nvmlDeviceGetNvLinkState"
	symLinkRemote   = "nvmlDeviceGetNvLinkRemotePciInfo_v2"
	symLinkType     = "nvmlDeviceGetNvLinkRemoteDeviceType"
	symFields       = "nvmlDeviceGetFieldValues"
	symRemapped     = "nvmlDeviceGetRemappedRows"
	symMIGMode      = "nvmlDeviceGetMigMode"
	symMIGCount     = "nvmlDeviceGetMaxMigDeviceCount"
	symMIGHandle    = "nvmlDeviceGetMigDeviceHandleByIndex"
	symGIID         = "nvmlDeviceGetGpuInstanceId"
	symCIID         = "nvmlDeviceGetComputeInstanceId"
	symAttributes   = "nvmlDeviceGetAttributes_v2"
	symGI           = "nvmlDeviceGetGpuInstanceById"
	symGIInfo       = "nvmlGpuInstanceGetInfo"
	symGIProfile    = "nvmlDeviceGetGpuInstanceProfileInfo"
	symFabric       = "nvmlDeviceGetGpuFabricInfo"
	symFabricV      = "nvmlDeviceGetGpuFabricInfoV"
)

func optional() []string {
	return []string{
		symBrand, symArchitecture, symLinkState, symLinkRemote, symLinkType, symFields, symRemapped,
		symMIGMode, symMIGCount, symMIGHandle, symGIID, symCIID, symAttributes, symGI, symGIInfo, symGIProfile,
		symFabric, symFabricV,
	}
}

// library is a loaded libnvidia-ml.so.1. It is never unloaded: the dynamic
// linker keeps a library from whose symbols the program has been bound.
type library struct {
	path string
	api  gonvml.Interface
	has  map[string]bool
}

// load opens the library and checks its symbols. It calls none of them; later
// calls are noted in calls.
func load(path string, calls *inFlight) (*library, error) {
	handle := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := handle.Open(); err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	var missing []string
	for _, name := range required() {
		if handle.Lookup(name) != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		err := fmt.Errorf("load %s: it lacks %s (a driver of R450 or newer is needed)", path, strings.Join(missing, ", "))
		return nil, errors.Join(err, handle.Close())
	}
	lib := &library{path: path, api: timed{gonvml.New(gonvml.WithLibraryPath(path)), calls}, has: map[string]bool{}}
	for _, name := range optional() {
		lib.has[name] = handle.Lookup(name) == nil
	}
	return lib, nil
}
