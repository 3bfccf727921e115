package contract

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long others may keep a folder locked. A replacement takes a few
// milliseconds, but any process that can read the folder can lock it forever.
const lockWait = time.Second

// lockFolder excludes other writers of a folder while a file is replaced.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(lockWait)
	for pause := time.Millisecond; ; pause *= 2 {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		case time.Now().After(until):
			return nil, errors.Join(fmt.Errorf("lock %s: another process keeps it locked: find it with lslocks and end it", dir), f.Close())
		}
		<-time.After(min(pause, time.Until(until)))
	}
}

// openFile opens a regular file, and rejects anything else: a FIFO would block until a
// process writes to it.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is not a regular file (%s): remove it", path, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
