// Container-toolkit installs and maintains everything that containers need to use the GPUs of its
// node: the tools of the container toolkit, CDI specs, device nodes, and the config of the container
// engine. NVIDIA's manifests run it under the names nvidia-ctk-installer and nvidia-toolkit.
package main

import (
	"outrigger.dev/agents/container-toolkit/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
