package mps

import (
	"fmt"

	"outrigger.dev/pkg/contract"
)

// Ready returns nil while the daemon of a folder answers. Otherwise, it returns the reason why a
// container would not find the daemon. It sends nothing to the daemon. It only reads the ready
// file of the daemon, which the supervisor writes and locks while the daemon answers.
func Ready(d contract.Dir, root, folder string) error {
	f := d.ReadFile(readyPath(root, folder))
	if f.State == contract.Valid {
		return nil
	}
	return fmt.Errorf("the MPS control daemon of %s is not ready: %s (see the log of mps-control-daemon on this node, if it runs there)", folder, f.Reason)
}
