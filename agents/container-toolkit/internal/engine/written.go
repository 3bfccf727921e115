package engine

import (
	"context"
	"slices"
	"time"
)

// An editor may empty a file before it writes the new content. writePause is the interval between two
// reads of such a file, writeReads the number of reads.
const (
	writePause = 200 * time.Millisecond
	writeReads = 5
)

// written returns the files of a target. It waits for the content of a file that is empty and had
// content: a change at that moment would replace the file, and the user's edit would be lost.
func (k *Keeper) written(ctx context.Context, t target, rec record) ([]file, error) {
	files, err := k.files(t)
	emptied := func(f file) bool {
		last := rec.find(f.path)
		return f.text != nil && blank(f.text) && last != nil && !blank(last.Wrote[0])
	}
	for i := 1; i < writeReads && err == nil && slices.ContainsFunc(files, emptied) && k.pause(ctx); i++ {
		files, err = k.files(t)
	}
	return files, err
}
