package containercli

import (
	"path"
	"slices"

	"outrigger.dev/pkg/driverroot"
)

// exclusions holds the flags that leave out parts of the driver.
type exclusions struct{ persistenced, fabricManager, mps, firmware *bool }

func (f *flags) exclusions() exclusions {
	return exclusions{
		persistenced:  f.boolean("no-persistenced", "", "leave out the socket of nvidia-persistenced"),
		fabricManager: f.boolean("no-fabricmanager", "", "leave out the socket of nvidia-fabricmanager"),
		mps:           f.boolean("no-mps", "", "leave out the folder of MPS pipes"),
		firmware:      f.boolean("no-gsp-firmware", "", "leave out the firmware of GPUs"),
	}
}

// apply removes from the driver the parts that the flags leave out.
func (w exclusions) apply(c *driverroot.Content) {
	if *w.firmware {
		c.Firmware = nil
	}
	c.Sockets = slices.DeleteFunc(c.Sockets, func(f driverroot.File) bool {
		switch path.Base(path.Dir(f.Path)) {
		case "nvidia-persistenced":
			return *w.persistenced
		case "nvidia-fabricmanager":
			return *w.fabricManager
		}
		// The folder of MPS pipes is the only socket that only CUDA needs.
		return *w.mps && f.Capabilities == driverroot.Compute
	})
}
