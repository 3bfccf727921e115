// Command kubectl is kubectl. In one binary with the other parts of Kubernetes, it takes twice
// the time to start.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand())) }
