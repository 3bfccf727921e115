package loader

import "context"

// Step looks for a new kernel once, and builds its modules.
func (k *Kernels) Step(ctx context.Context) error {
	_, err := k.step(ctx)
	return err
}

// CheckRoot looks at the mount of the driver root once.
func (l *Loader) CheckRoot() { l.checkRoot() }
