package install

// SetBefore has the function called before each change of the disk.
func (i *Installer) SetBefore(before func(change string) error) { i.before = before }

// Hidden returns a path in the folder with the versions.
func (d Dir) Hidden(names ...string) string { return d.hidden(names...) }
