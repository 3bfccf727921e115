package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/hostfs"
)

const (
	// turnWait is the time that a process waits for its turn. A turn takes a few milliseconds, but the
	// processors of the node can be busy, and other agents can be first several times.
	turnWait = 5 * time.Second
	// turnPause is the longest time between two looks at the turn.
	turnPause = 20 * time.Millisecond
)

// turnPrefix is the prefix of the name of a turn's file. A number follows it.
const turnPrefix = ".turn."

// anotherAgent is the owner of a turn if its name is not known.
const anotherAgent = "another agent"

// turn is the right to write a claim. Only the owner of the turn may write one between its check
// that there is no claim and its own claim.
//
// A turn is a file that its owner keeps write-locked. Its number is one above the number of the
// last turn. Only the owner can take that lock, because only the owner may write the file, and only
// one process can create the file. A turn ends with its process. A lock on a shared file, such as
// flock or a read lock, would not work: any process that can read the file could keep it.
type turn struct {
	file *os.File
}

// acquireTurn waits for the turn until the given time.
func (d Dir) acquireTurn(writer string, until time.Time) (*turn, error) {
	dir := d.leases()
	if err := d.makeFolder(dir); err != nil {
		return nil, d.unwritable(err)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, turnPause) {
		last, owner, err := lastTurn(dir)
		if err != nil {
			return nil, d.unwritable(err)
		}
		if owner == "" {
			t, err := nextTurn(dir, last+1, writer)
			if t != nil || err != nil {
				return t, d.unwritable(err)
			}
			owner = anotherAgent
		}
		left := time.Until(until)
		if left <= 0 {
			return nil, fmt.Errorf("claim in %s: %s began to claim there and does not finish: restart it", dir, owner)
		}
		<-time.After(min(pause, left))
	}
}

// nextTurn takes turn n. It returns nil if another process was faster.
func nextTurn(dir string, n uint64, writer string) (*turn, error) {
	f, err := hostfs.Replace(turnPath(dir, n), 0o600)
	if err != nil {
		return nil, err
	}
	err = f.Locked()
	if err == nil {
		_, err = f.WriteString(writer)
	}
	if err == nil {
		err = f.ShowNew()
	}
	if errors.Is(err, hostfs.ErrLocked) || errors.Is(err, fs.ErrExist) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t := &turn{file: f.File}
	turns, err := turnsIn(dir)
	if err == nil && (len(turns) == 0 || turns[len(turns)-1] != n) {
		// Other processes have taken turns since this process searched for the last one.
		return nil, errors.Join(os.Remove(turnPath(dir, n)), t.end())
	}
	for _, old := range turns {
		if old < n { // the owner has ended this turn
			_ = os.Remove(turnPath(dir, old))
			_ = hostfs.RemoveLeftovers(turnPath(dir, old))
		}
	}
	if err != nil {
		return nil, errors.Join(err, t.end())
	}
	return t, nil
}

// end ends the turn. Its file stays, because its name has the number of the last turn.
func (t *turn) end() error { return t.file.Close() }

// lastTurn returns the number of the last turn, or 0, and the name of its owner if the turn has not
// ended.
func lastTurn(dir string) (n uint64, owner string, err error) {
	turns, err := turnsIn(dir)
	if err != nil || len(turns) == 0 {
		return 0, "", err
	}
	n = turns[len(turns)-1]
	f, err := hostfs.Open(turnPath(dir, n))
	if errors.Is(err, fs.ErrNotExist) {
		return n, anotherAgent, nil // another agent has taken the next turn
	}
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	locked, err := hostfs.WriteLocked(f)
	if err != nil || !locked {
		return n, "", err
	}
	name := make([]byte, 64)
	size, _ := f.Read(name)
	if size == 0 {
		return n, anotherAgent, nil
	}
	return n, strconv.QuoteToGraphic(string(name[:size])), nil
}

// turnsIn returns the numbers of the turns in ascending order.
func turnsIn(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), turnPrefix)
		if n, err := strconv.ParseUint(number, 10, 63); ok && err == nil && n > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

func turnPath(dir string, n uint64) string {
	return filepath.Join(dir, turnPrefix+strconv.FormatUint(n, 10))
}
