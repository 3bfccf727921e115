package contract

// BootID identifies this boot of the node. It is the same in all containers.
func (d Dir) BootID() (string, error) { return d.bootID() }
