// Command gpu-sim makes, changes and enters simulated GPU nodes. In the driver root that it makes,
// it has the names of the driver's programs. Under such a name, it simulates that program.
package main

import (
	"os"

	"outrigger.dev/sim/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
