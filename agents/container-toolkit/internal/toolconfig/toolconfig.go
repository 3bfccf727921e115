// Package toolconfig reads and edits config.toml, the configuration of the tools that run
// on the host. NVIDIA's container toolkit defines its keys, their defaults and their meaning.
//
// The package uses the syntax tree of the TOML library, which has the places of keys.
// Therefore warnings and errors name the line, and an edit changes only one key.
package toolconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/pkg/hostfs"
)

// DefaultPath is the path of the file if no flag, variable or installed file replaces it.
const DefaultPath = "/etc/nvidia-container-runtime/config.toml"

// maxSize limits the size of config.toml, in bytes. Real files are smaller.
const maxSize = 1 << 20

// Config is the content of config.toml. The comment of each field names its key.
type Config struct {
	// DisableRequire is disable-require: ignore the variables NVIDIA_REQUIRE_*.
	DisableRequire bool
	// SwarmResources is swarm-resource: the names of variables that replace
	// NVIDIA_VISIBLE_DEVICES if a container has one of them.
	SwarmResources []string
	// AcceptVariable is accept-nvidia-visible-devices-envvar-when-unprivileged.
	AcceptVariable bool
	// AcceptMounts is accept-nvidia-visible-devices-as-volume-mounts.
	AcceptMounts bool
	// AcceptAnnotations is accept-cdi-annotations-when-unprivileged, which NVIDIA's tools do not have.
	// Annotations are also accepted if AcceptVariable is set.
	AcceptAnnotations bool
	// Capabilities is supported-driver-capabilities.
	Capabilities []string
	CLI          CLI
	Runtime      Runtime
	Hook         Hook
	// CTKPath is nvidia-ctk.path.
	CTKPath  string
	Features Features
}

// CLI is the section nvidia-container-cli.
type CLI struct {
	// Root is the driver root on the host; empty means "/".
	Root string
	// Path is the path of the program; empty means that PATH is searched.
	Path string
	// Environment is added to the environment of the program.
	Environment []string
	// Debug is the log file of the program; empty means none.
	Debug string
	// LDCache is the host's ld.so.cache; empty means the default of the program.
	LDCache   string
	LoadKmods bool
	NoPivot   bool
	NoCgroups bool
	// User is UID[:GID] of the process that reads the driver.
	User string
	// Ldconfig is the ldconfig of the host, with the prefix "@". Empty means the default, see
	// LdconfigPath.
	Ldconfig string
}

// Runtime is the section nvidia-container-runtime.
type Runtime struct {
	// Debug is the log file of the runtime; /dev/null means none.
	Debug    string
	LogLevel string
	// Runtimes are the names or paths of low-level runtimes. The first existing one runs.
	Runtimes []string
	// Mode is one of Modes.
	Mode string
	CDI  CDI
	CSV  CSV
	JIT  JIT
	// CUDACompatMode is modes.legacy.cuda-compat-mode.
	CUDACompatMode string
}

// CDI is the section nvidia-container-runtime.modes.cdi.
type CDI struct {
	// AnnotationPrefixes are the prefixes of annotations whose values name CDI devices.
	AnnotationPrefixes []string
	// DefaultKind is the kind of devices that a container names without a kind.
	DefaultKind string
	// SpecDirs are the folders of CDI specs. A later one has precedence.
	SpecDirs []string
}

// CSV is the section nvidia-container-runtime.modes.csv, for Tegra.
type CSV struct {
	MountSpecPath       string
	CompatContainerRoot string
}

// JIT is the section nvidia-container-runtime.modes.jit-cdi. Its keys configure the program
// that writes the CDI specs.
type JIT struct {
	FeatureFlags []string
	DisableHooks []string
}

// Hook is the section nvidia-container-runtime-hook.
type Hook struct {
	// Path is the path or name of the prestart hook.
	Path              string
	SkipModeDetection bool
}

// Features is the section features.
type Features struct {
	AllowCUDACompatLibsFromContainer bool
	AllowLdconfigFromContainer       bool
	AllowUnknownOCISpecFields        bool
	DisableCUDACompatLibHook         bool
	DisableIMEXChannelCreation       bool
	IgnoreIMEXChannelRequests        bool
	NoAdditionalGIDs                 bool
}

// SpecFeatures returns the settings for programs that write CDI specs: feature flags, and hooks
// to omit, with the names of package cdi.
func (c *Config) SpecFeatures() (flags, disabledHooks []string) {
	flags, disabledHooks = slices.Clone(c.Runtime.JIT.FeatureFlags), slices.Clone(c.Runtime.JIT.DisableHooks)
	if c.Features.NoAdditionalGIDs {
		flags = append(flags, "no-additional-gids-for-device-nodes")
	}
	if c.Features.DisableCUDACompatLibHook {
		disabledHooks = append(disabledHooks, "enable-cuda-compat")
	}
	return flags, disabledHooks
}

// Modes of the runtime.
const (
	ModeAuto   = "auto"
	ModeCDI    = "cdi"
	ModeJITCDI = "jit-cdi"
	ModeLegacy = "legacy"
	ModeCSV    = "csv"
)

// Modes returns the values that nvidia-container-runtime.mode can have.
func Modes() []string { return []string{ModeAuto, ModeCDI, ModeCSV, ModeJITCDI, ModeLegacy} }

// Default returns the configuration that applies without a file.
func Default() *Config {
	return &Config{
		AcceptVariable: true,
		Capabilities:   []string{"compat32", "compute", "display", "graphics", "ngx", "utility", "video"},
		CLI:            CLI{LoadKmods: true},
		Runtime: Runtime{
			Debug:    "/dev/null",
			LogLevel: "info",
			Runtimes: []string{"runc", "crun"},
			Mode:     ModeAuto,
			CDI: CDI{
				AnnotationPrefixes: []string{"cdi.k8s.io/"},
				DefaultKind:        "nvidia.com/gpu",
				SpecDirs:           []string{"/etc/cdi", "/var/run/cdi"},
			},
			CSV:            CSV{MountSpecPath: "/etc/nvidia-container-runtime/host-files-for-container.d"},
			CUDACompatMode: "ldconfig",
		},
		Hook:    Hook{Path: "nvidia-container-runtime-hook"},
		CTKPath: "nvidia-ctk",
	}
}

// Path returns the path of the file. It is the first of these that is set: the flag, the variable
// NVIDIA_CTK_CONFIG_FILE_PATH, the path beside, the file in the folder of XDG_CONFIG_HOME, and
// DefaultPath.
func Path(flag string, getenv func(string) string, beside string) string {
	for _, path := range []string{flag, getenv("NVIDIA_CTK_CONFIG_FILE_PATH"), beside} {
		if path != "" {
			return path
		}
	}
	if home := getenv("XDG_CONFIG_HOME"); home != "" {
		return filepath.Join(home, inHome)
	}
	return DefaultPath
}

// inHome is the path of the file relative to a folder of configurations.
const inHome = "nvidia-container-runtime/config.toml"

// Beside returns the path of the config file that the agent installed next to this program, in
// the folder ".config". It returns "" if the file does not exist.
func Beside() string {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(program), ".config", inHome)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// Load reads the file at path. If the file does not exist, it returns the default. It returns a
// warning for each unknown key.
func Load(path string) (c *Config, warnings []string, err error) {
	data, err := hostfs.ReadFile(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read config: %w", err)
	}
	c, warnings, err = Parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read config %s: %w: correct it, or replace the file: nvidia-ctk config create-default --output %s", path, err, path)
	}
	for i, w := range warnings {
		warnings[i] = path + ": " + w
	}
	return c, warnings, nil
}

// LdconfigPath returns the path of the host's ldconfig, without "@". exists reports whether a
// file exists on the host. Some distributions replace ldconfig by a script, and keep the program
// as ldconfig.real.
func (c CLI) LdconfigPath(exists func(path string) bool) string {
	if c.Ldconfig != "" {
		path, _ := cutHost(c.Ldconfig)
		return path
	}
	const name = "/sbin/ldconfig"
	if exists(name + ".real") {
		return name + ".real"
	}
	return name
}
