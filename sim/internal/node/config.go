package node

import (
	"fmt"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/tree"
)

// configFiles returns the configuration files that point loaders of graphics and compute interfaces
// to the driver.
func configFiles(version string) []tree.Entry {
	share, etc := driverRoot+"/usr/share/", driverRoot+"/etc/"
	icd := func(library string) string {
		return fmt.Sprintf("{\n    \"file_format_version\" : \"1.0.0\",\n    \"ICD\" : {\n        \"library_path\" : %q\n    }\n}\n", library)
	}
	vulkan := func(kind, library string) string {
		return fmt.Sprintf("{\n    \"file_format_version\" : \"1.0.1\",\n    %q : {\n        \"library_path\" : %q,\n        \"api_version\" : \"1.4.312\"\n    }\n}\n", kind, library)
	}
	layer := fmt.Sprintf(vulkanLayer, version)
	return []tree.Entry{
		config(share+"glvnd/egl_vendor.d/10_nvidia.json", icd("libEGL_nvidia.so.0")),
		config(share+"egl/egl_external_platform.d/10_nvidia_wayland.json", icd("libnvidia-egl-wayland.so.1")),
		config(share+"egl/egl_external_platform.d/15_nvidia_gbm.json", icd("libnvidia-egl-gbm.so.1")),
		config(share+"egl/egl_external_platform.d/20_nvidia_xcb.json", icd("libnvidia-egl-xcb.so.1")),
		config(share+"egl/egl_external_platform.d/20_nvidia_xlib.json", icd("libnvidia-egl-xlib.so.1")),
		config(share+"X11/xorg.conf.d/nvidia-drm-outputclass.conf", outputClass),
		config(share+"nvidia/nvoptix.bin", firmware),
		config(etc+"vulkan/icd.d/nvidia_icd.json", vulkan("ICD", "libGLX_nvidia.so.0")),
		config(etc+"vulkan/implicit_layer.d/nvidia_layers.json", layer),
		config(etc+"OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n"),
	}
}

func config(path, data string) tree.Entry {
	return tree.Entry{Path: path, Mode: 0o644, Data: []byte(data)}
}

const outputClass = `Section "OutputClass"
    Identifier "nvidia"
    MatchDriver "nvidia-drm"
    Driver "nvidia"
    ModulePath "/` + arch.Libraries + `/nvidia/xorg"
EndSection
`

// vulkanLayer is the manifest of the layer that chooses between GPUs. Its library is the Vulkan
// driver.
const vulkanLayer = `{
    "file_format_version" : "1.0.0",
    "layer" : {
        "name" : "VK_LAYER_NV_optimus",
        "type" : "INSTANCE",
        "library_path" : "libGLX_nvidia.so.0",
        "api_version" : "1.4.312",
        "implementation_version" : "1",
        "description" : "NVIDIA Optimus layer, driver %s",
        "enable_environment" : { "__NV_PRIME_RENDER_OFFLOAD" : "1" },
        "disable_environment" : { "DISABLE_LAYER_NV_OPTIMUS_1" : "" }
    }
}
`
