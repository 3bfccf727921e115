package reader

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

func brandName(b gonvml.BrandType) string {
	return map[gonvml.BrandType]string{
		gonvml.BRAND_QUADRO:              "Quadro",
		gonvml.BRAND_TESLA:               "Tesla",
		gonvml.BRAND_NVS:                 "NVS",
		gonvml.BRAND_GRID:                "Grid",
		gonvml.BRAND_GEFORCE:             "GeForce",
		gonvml.BRAND_TITAN:               "Titan",
		gonvml.BRAND_NVIDIA_VAPPS:        "NvidiaVApps",
		gonvml.BRAND_NVIDIA_VPC:          "NvidiaVPC",
		gonvml.BRAND_NVIDIA_VCS:          "NvidiaVCS",
		gonvml.BRAND_NVIDIA_VWS:          "NvidiaVWS",
		gonvml.BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
		gonvml.BRAND_QUADRO_RTX:          "QuadroRTX",
		gonvml.BRAND_NVIDIA_RTX:          "NvidiaRTX",
		gonvml.BRAND_NVIDIA:              "Nvidia",
		gonvml.BRAND_GEFORCE_RTX:         "GeForceRTX",
		gonvml.BRAND_TITAN_RTX:           "TitanRTX",
	}[b]
}

func architectureName(a gonvml.DeviceArchitecture) string {
	return map[gonvml.DeviceArchitecture]string{
		gonvml.DEVICE_ARCH_KEPLER:    "Kepler",
		gonvml.DEVICE_ARCH_MAXWELL:   "Maxwell",
		gonvml.DEVICE_ARCH_PASCAL:    "Pascal",
		gonvml.DEVICE_ARCH_VOLTA:     "Volta",
		gonvml.DEVICE_ARCH_TURING:    "Turing",
		gonvml.DEVICE_ARCH_AMPERE:    "Ampere",
		gonvml.DEVICE_ARCH_ADA:       "Ada Lovelace",
		gonvml.DEVICE_ARCH_HOPPER:    "Hopper",
		gonvml.DEVICE_ARCH_BLACKWELL: "Blackwell",
		gonvml.DEVICE_ARCH_RUBIN:     "Rubin",
	}[a]
}
