package cdihook

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/ldcache"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/ldso"
)

// defaultCompat is the folder of the CUDA compatibility libraries in NVIDIA's CUDA images.
const defaultCompat = "/usr/local/cuda/compat"

// Compat describes the host's driver, for the comparison with the CUDA compatibility libraries of
// an image. The zero Compat disables the comparison.
type Compat struct {
	// Driver is the version of the driver, such as 580.95.05. CUDA is the CUDA version that the driver
	// supports, such as 13.0. One of them is enough.
	Driver, CUDA string
	// Folder is the folder of the libraries in the container. "" means /usr/local/cuda/compat.
	Folder string
}

func (c Compat) wanted() bool { return c.Driver != "" || c.CUDA != "" }

// enable adds the folder of the libraries to ld.so.conf.d if they should be used. Otherwise it
// removes the folder, because the container may have started with another driver before.
func (c Compat) enable(root *rootfs.Root, warn func(string)) error {
	if !c.wanted() {
		return nil
	}
	folder := path.Clean("/" + cmp.Or(c.Folder, defaultCompat))
	use, err := c.use(root, folder)
	if err != nil {
		warn("CUDA compatibility libraries are not used: " + err.Error())
	}
	if use {
		err = root.WriteFile(ldcache.CompatConf, []byte(folder+"\n"), 0o644)
	} else {
		err = root.Remove(ldcache.CompatConf)
	}
	if rootfs.CannotChange(err) {
		warn(err.Error())
		return nil
	}
	return err
}

// use reports whether the libraries of the image should be used.
func (c Compat) use(root *rootfs.Root, folder string) (bool, error) {
	dir, err := root.Dir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Names(1 << 12)
	if err != nil {
		return false, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		ok, err := path.Match("libcuda.so.*.*", name)
		return !ok || err != nil
	})
	if len(names) == 0 {
		return false, nil
	}
	if len(names) > 1 {
		return false, errors.New("several versions in " + folder + ": " + strings.Join(names, ", "))
	}
	f, err := dir.Open(names[0])
	if err != nil {
		return false, err
	}
	defer f.Close()
	note, err := readCompatNote(f)
	return c.later(strings.TrimPrefix(names[0], "libcuda.so."), note), err
}

// compatNote lists the driver versions that a library supports.
type compatNote struct {
	CUDA string `json:"CUDA Version"`
	// Driver lists the major versions of the driver.
	Driver []int
}

// maxNote limits the size of the note, because the image may be hostile.
const maxNote = 64 << 10

// readCompatNote returns the note of a library, or nil if it has no valid note.
func readCompatNote(r io.ReaderAt) (*compatNote, error) {
	data, align, err := ldso.ReadNote(r, ".note.cuda.fwd_compatibility", maxNote)
	if err != nil || len(data) < 12 {
		return nil, err
	}
	nameSize := uint64(binary.LittleEndian.Uint32(data))
	textSize := uint64(binary.LittleEndian.Uint32(data[4:]))
	align = max(align, 1)
	if align > maxNote || nameSize > maxNote || textSize > maxNote {
		return nil, nil
	}
	start := 12 + (nameSize+align-1)/align*align
	if start+textSize > uint64(len(data)) || strings.TrimRight(string(data[12:12+nameSize]), "\x00") != "NVIDIA Corporation" {
		return nil, nil
	}
	var n compatNote
	if err := json.Unmarshal([]byte(strings.Trim(string(data[start:start+textSize]), "\x00")), &n); err != nil {
		return nil, err
	}
	return &n, nil
}

// later reports whether the image's libraries should replace the host's driver libraries. The
// parameter library is the version of the image's libraries. Their note decides. Without a note,
// the major versions of the drivers are compared.
func (c Compat) later(library string, n *compatNote) bool {
	compat, host := parseVersion(library), parseVersion(c.Driver)
	switch {
	case n != nil && (compat == nil || host == nil):
		its, ours := parseVersion(n.CUDA), parseVersion(c.CUDA)
		return its != nil && ours != nil && slices.Compare(its, ours) > 0
	case n != nil:
		return slices.Contains(n.Driver, host[0]) && slices.Compare(compat, host) > 0
	case c.CUDA != "" || compat == nil || host == nil:
		return false
	}
	return host[0] < compat[0]
}

// parseVersion returns the numbers of a version, or nil if it is invalid.
func parseVersion(s string) []int {
	parts := strings.Split(s, ".")
	out := make([]int, 0, 4)
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || len(out) == cap(out) {
			return nil
		}
		out = append(out, int(n))
	}
	// Missing numbers are 0: 13 equals 13.0.
	for len(out) < cap(out) {
		out = append(out, 0)
	}
	return out
}
