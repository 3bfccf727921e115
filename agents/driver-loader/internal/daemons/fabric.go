package daemons

import (
	"fmt"
	"strings"
)

// fabricPrefix begins the variables with settings of the fabric manager, as in NVIDIA's driver container:
// NVFM_CONFIG_LOG_LEVEL=4 sets LOG_LEVEL=4.
const fabricPrefix = "NVFM_CONFIG_"

// FabricSettings returns the settings of the fabric manager in an environment.
func FabricSettings(environment []string) (map[string]string, error) {
	out := map[string]string{}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		key, ok := strings.CutPrefix(name, fabricPrefix)
		if !ok {
			continue
		}
		if key == "" || strings.ContainsAny(key+value, "\r\n") {
			return nil, fmt.Errorf("variable %s: its name needs a setting of the fabric manager after %s, and its value must be one line", name, fabricPrefix)
		}
		out[key] = value
	}
	return out, nil
}

// settings returns the settings that replace settings in the configuration of a daemon.
func (s *Supervisor) settings(d Daemon) map[string]string {
	switch d.Name {
	case fabricManager:
		return s.cfg.Fabric
	case imex:
		return map[string]string{"DAEMONIZE": "0"}
	}
	return nil
}
