package engine

import (
	"fmt"
	"slices"
	"strings"
)

// withoutFlags returns d without the settings that the command line of the engine already sets to
// the desired value. It returns an error if the command line has another value: dockerd does not
// start if a setting is both on its command line and in its config file, even with the same value,
// and CRI-O ignores the file.
func (t target) withoutFlags(d Desired) (Desired, error) {
	if t.process == nil {
		return d, nil
	}
	why := fmt.Sprintf("%s then ignores this setting in %s", t.engine, t.dropIn)
	if t.engine == Docker {
		why = fmt.Sprintf("dockerd does not start if %s has this setting too", t.main)
	}
	refused := func(flag, fix string) error {
		return fmt.Errorf("configure %s: its process %d was started with %s, and %s: remove it from %s and restart the service, or %s",
			t.engine, t.process.pid, flag, why, t.unit, fix)
	}
	if flag, name := t.defaultFlag(); name == d.Default {
		d.Default = ""
	} else if name != "" && d.Default != "" {
		return d, refused(flag+"="+name, "do not make the NVIDIA runtime the default: --nvidia-runtime-set-as-default=false (NVIDIA_RUNTIME_SET_AS_DEFAULT), or no --nvidia-set-as-default of nvidia-ctk")
	}
	if features := t.process.options("feature"); t.engine == Docker && d.CDI && len(features) > 0 {
		cdi := slices.DeleteFunc(features, func(f string) bool { return f != "cdi" && !strings.HasPrefix(f, "cdi=") })
		if len(cdi) == 0 || !slices.Contains([]string{"cdi", "cdi=true", "cdi=1"}, cdi[len(cdi)-1]) {
			return d, refused("--feature", "add --feature=cdi=true there")
		}
		d.CDI = false
	}
	return d, nil
}

// defaultFlag returns the flag or variable that sets the engine's default runtime, and the name of the
// runtime. Both are "" if only the config file can set it.
func (t target) defaultFlag() (flag, name string) {
	if t.process == nil || t.engine == Containerd {
		return "", ""
	}
	const option, variable = "default-runtime", "CONTAINER_DEFAULT_RUNTIME"
	if name := t.process.option(option); name != "" {
		return "--" + option, name
	}
	if name := t.process.variable(variable); name != "" && t.engine == CRIO {
		return variable, name
	}
	return "", ""
}
