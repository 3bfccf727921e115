package payload

import (
	"context"
	"fmt"
	"path/filepath"
)

// Complete reports whether all files are there with their sizes.
func (p Payload) Complete() error { return p.complete() }

// Verify reports whether all files are there with the content of the list.
func (p Payload) Verify(ctx context.Context) error {
	files, err := p.listing()
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.target != "" {
			continue
		}
		if sum, err := sumFile(ctx, filepath.Join(p.Dir, f.path)); err != nil || sum != f.sum {
			return fmt.Errorf("%s has the digest %s, want %s: %w", f.path, sum, f.sum, err)
		}
	}
	return p.complete()
}
