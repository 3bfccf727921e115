// Command cluster runs a real Kubernetes cluster of one or more nodes on one Linux
// machine. Each node has its own namespaces, so that the machine is unchanged after the
// cluster is taken down.
package main

import (
	"os"

	"outrigger.dev/test/cluster/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args))
}
