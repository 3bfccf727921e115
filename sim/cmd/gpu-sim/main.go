// Command gpu-sim makes, changes and enters simulated GPU nodes. Under the name
// of one of the driver's programs, as in the driver root that it makes, it
// plays that program.
package main

import (
	"os"

	"outrigger.dev/sim/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
