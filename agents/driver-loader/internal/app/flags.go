package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
)

// flags returns the flags of the agent. The environment variables have the names of NVIDIA's
// driver container, for settings that it has.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		cmdline.Under(category.Node, s.hostFlags()...),
		cmdline.Under(category.Driver, s.driverFlags()...),
		cmdline.Under(category.Build, s.buildFlags()...),
		cmdline.Under(category.Kubernetes, s.clusterFlags()...),
	)
}

// hostFlags returns the flags that locate the host: the flags of all agents, and flags of the loader. The
// driver root is an output of this agent, not an input.
func (s *settings) hostFlags() []cli.Flag {
	return append(s.host.Flags()[3:], // without --driver-root, --driver-root-ctr-path and --dev-root
		cmdline.Absolute(&cli.PathFlag{
			Name: "host-root", EnvVars: []string{"HOST_ROOT"}, DefaultText: `"` + defaultHostRoot + `"`, Destination: &s.config.HostRoot,
			Usage: "`FOLDER` at which the agent sees the root of the host; if the default does not exist, /",
		}),
		cmdline.Absolute(&cli.PathFlag{
			Name: "store", EnvVars: []string{"DRIVER_STORE"}, Value: "/var/lib/outrigger/driver", Destination: &s.config.Store,
			Usage: "`FOLDER` of the host, at the same path in the agent's container, with drivers and built modules",
		}),
		cmdline.Absolute(&cli.PathFlag{
			Name: "driver-install-dir", EnvVars: []string{"DRIVER_INSTALL_DIR"}, Value: "/run/nvidia/driver", Destination: &s.config.Place.At,
			Usage: "`FOLDER` of the host at which the agent mounts the driver root",
		}),
	)
}

func (s *settings) driverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "driver-version", EnvVars: []string{"DRIVER_VERSION"}, Destination: &s.desired.Version,
			Usage: "`VERSION` of the driver in the store to load; if empty, the driver of --payload, or the driver that was imported last",
		},
		&cli.PathFlag{
			Name: "payload", EnvVars: []string{"DRIVER_PAYLOAD"}, Destination: &s.payload,
			Usage: "`PATH` of a driver to import at start: a .run archive, a folder with its content, the root of a driver image, or NVIDIA's sources",
		},
		&cli.BoolFlag{
			Name: "disable-vgpu-version-check", EnvVars: []string{"DISABLE_VGPU_VERSION_CHECK"}, Value: true, Destination: &s.disableVGPUCheck,
			Usage: "load the driver of --driver-version; with false, an image with drivers for virtual machines chooses the driver for the host's version",
		},
		cmdline.Enum(&cli.StringFlag{
			Name: "kernel-module-type", EnvVars: []string{"KERNEL_MODULE_TYPE"}, Value: autoType, Destination: &s.moduleType,
			Usage: "`TYPE` of the kernel modules: open, proprietary, or auto (open for driver 560 and later)",
		}, autoType, string(payload.Open), string(payload.Proprietary)),
		cmdline.Absolute(&cli.PathFlag{
			Name: "kernel-module-config", EnvVars: []string{"KERNEL_MODULE_CONFIG"}, Value: "/drivers", Destination: &s.params,
			Usage: "`FOLDER` with parameters of the kernel modules: files such as nvidia.conf and nvidia-uvm.conf with lines name=value",
		}),
		&cli.BoolFlag{
			Name: "auto-upgrade", EnvVars: []string{"AUTO_UPGRADE"}, Value: true, Destination: &s.autoUpgrade,
			Usage: "replace a loaded driver that is not the desired driver, as soon as no process uses it",
		},
		&cli.BoolFlag{
			Name: "replace-foreign-driver", EnvVars: []string{"REPLACE_FOREIGN_DRIVER"}, Destination: &s.desired.ReplaceForeign,
			Usage: "replace a loaded driver even if another program has built and loaded it",
		},
		&cli.BoolFlag{
			Name: "gpu-direct-rdma-enabled", EnvVars: []string{"GPU_DIRECT_RDMA_ENABLED"}, Destination: &s.desired.Options.RDMA,
			Usage: "load nvidia_peermem, so that network adapters can access the memory of GPUs (GPUDirect RDMA)",
		},
		&cli.BoolFlag{Name: "gds-enabled", EnvVars: []string{"GDS_ENABLED"}, Destination: &s.desired.Options.Storage, Usage: "load nvidia_fs, for GPUDirect Storage"},
		&cli.BoolFlag{Name: "gdrcopy-enabled", EnvVars: []string{"GDRCOPY_ENABLED"}, Destination: &s.desired.Options.GDRCopy, Usage: "load gdrdrv, for GDRCopy"},
		&cli.BoolFlag{Name: "drm-enabled", EnvVars: []string{"DRM_ENABLED"}, Destination: &s.desired.Options.DRM, Usage: "load nvidia_drm, for graphics and displays"},
	}
}

func (s *settings) buildFlags() []cli.Flag {
	return []cli.Flag{
		cmdline.Check(&cli.IntFlag{
			Name: "max-threads", EnvVars: []string{"MAX_THREADS"}, Destination: &s.config.Jobs,
			Usage: "`NUMBER` of compilers that run at the same time; 0 for one per processor",
		}, "0 or more", func(n int) bool { return n >= 0 }),
		&cli.BoolFlag{
			Name: "build-for-new-kernels", EnvVars: []string{"BUILD_FOR_NEW_KERNELS"}, Value: true, Destination: &s.newKernels,
			Usage: "build the modules for a newly installed kernel before the node boots it, with low priority; needs its headers on the host and a compiler",
		},
		&cli.PathFlag{
			Name: "signing-key", EnvVars: []string{"MODULE_SIGNING_KEY"}, Destination: &s.signingKey,
			Usage: "`FILE` with the private key, in PEM form, that signs the modules; its certificate must be enrolled on the node",
		},
		&cli.PathFlag{
			Name: "signing-certificate", EnvVars: []string{"MODULE_SIGNING_CERTIFICATE"}, Destination: &s.signingCertificate,
			Usage: "`FILE` with the certificate of the signing key, in PEM form",
		},
	}
}
