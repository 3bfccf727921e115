// Command kubectl is kubectl. It is a separate program, because it takes twice as long to start in
// one binary with the other parts of Kubernetes.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand())) }
