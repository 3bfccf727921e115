// Command cluster runs a real Kubernetes of one or more nodes on one Linux
// machine. Each node lives in namespaces of its own, so that taking the cluster
// down leaves the machine as it was.
package main

import (
	"os"

	"outrigger.dev/test/cluster/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args))
}
