// Device-plugin advertises the NVIDIA GPUs of its node to the kubelet as the
// extended resource nvidia.com/gpu. If it is started as config-manager, as NVIDIA's chart
// does with the same image, it selects the config file of the node instead.
package main

import (
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/agents/device-plugin/internal/configmanager"
	"outrigger.dev/pkg/agent"
)

func main() {
	if filepath.Base(os.Args[0]) == configmanager.Name {
		agent.Main(configmanager.App())
	}
	agent.Main(app.App())
}
