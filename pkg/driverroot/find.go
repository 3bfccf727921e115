package driverroot

import (
	"cmp"
	"slices"
)

// Find returns the content of the driver root. The error is a *MissingError if a part is missing
// that containers need to use a GPU.
func (r *Root) Find() (*Content, error) {
	once := r.afresh()
	c, err := once.find()
	if err == nil {
		c.mark = once.mark(r)
	}
	return c, err
}

// FindExtras returns only the extras.
func (r *Root) FindExtras() Extras {
	once := r.afresh()
	x := once.extras(once.devRoot())
	x.mark = once.mark(r)
	return x
}

func (r *Root) find() (*Content, error) {
	missing := &MissingError{Root: r.host}
	dirs := r.libraryDirs()
	c := &Content{}
	c.Version = r.version(dirs, missing)
	if c.Version != "" {
		c.Libraries = r.libraries(dirs, c.Version)
		missing.requireLibrary(r, c, dirs)
		c.Firmware = r.firmware(c.Version)
		if len(c.Firmware) == 0 {
			missing.Optional = append(missing.Optional, "firmware gsp*.bin")
		}
	}
	c.Binaries = r.binaries(missing)
	c.Configs = r.configs()
	c.Sockets = r.sockets()
	dev := r.devRoot()
	c.Control = dev.control(missing)
	c.GPUs = dev.nodesByNumber(".", gpuNode)
	c.DRM = dev.drm(r.sys)
	c.Caps = dev.nodesByNumber("nvidia-caps", capNode)
	c.Extras = r.extras(dev)
	if len(missing.Required) > 0 {
		return nil, missing
	}
	return c, nil
}

// sortFiles orders files by their path in the container and drops duplicates.
func sortFiles(files []File) []File {
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(files, func(a, b File) bool { return a.Path == b.Path })
}
