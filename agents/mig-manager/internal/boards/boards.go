// Package boards has a table of products that can be divided into MIG devices, for plans and checks
// without a GPU. Its figures are published ones. At run time, the values of NVML take precedence.
package boards

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

//go:embed boards.yaml
var source []byte

// Product is a GPU that can be divided.
type Product struct {
	// Name is a short name, such as "a100-40".
	Name string
	// DeviceIDs are in the form of gpu.PCI.
	DeviceIDs []uint32
	// MemoryBytes is the memory of the GPU that NVML reports.
	MemoryBytes uint64
	// NeedsReset is set if a change of the MIG mode takes effect after a reset of the GPU.
	NeedsReset bool
	Board      mig.Board
	// Verified is set if the figures were compared with a real GPU.
	Verified bool
	// Source is the source of the figures.
	Source string
}

// All returns all products, in a fixed order.
func All() []Product {
	t := published()
	list := make([]Product, 0, len(t.Products))
	for _, row := range t.Products {
		p, err := t.product(row)
		if err != nil {
			panic(err) // read has already converted this row
		}
		list = append(list, p)
	}
	return list
}

// Find returns the product with a PCI device ID. If several products have the ID, it returns the
// product whose memory is nearest to memoryBytes. If memoryBytes is 0, the memory is unknown, and
// Find returns the first product. It returns false if no product has the ID, or if the memory
// differs by more than an eighth, because the names of the profiles would be wrong.
func Find(pci gpu.PCI, memoryBytes uint64) (Product, bool) {
	var found []Product
	apart := func(p Product) uint64 { return max(p.MemoryBytes, memoryBytes) - min(p.MemoryBytes, memoryBytes) }
	for _, p := range All() {
		if slices.Contains(p.DeviceIDs, pci.DeviceID) && (memoryBytes == 0 || apart(p) <= p.MemoryBytes/8) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return Product{}, false
	}
	if memoryBytes == 0 {
		return found[0], true
	}
	return slices.MinFunc(found, func(a, b Product) int { return cmp.Compare(apart(a), apart(b)) }), true
}

// Named returns the product with a name.
func Named(name string) (Product, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Product{}, false
}

var published = sync.OnceValue(func() table {
	t, err := read(source)
	if err != nil {
		panic(err) // a test reads the same file
	}
	return t
})

// table is the content of boards.yaml, which describes its fields.
type table struct {
	Layouts  map[string]layout    `yaml:"layouts"`
	Compute  map[int][]computeRow `yaml:"compute"`
	Engines  map[string]engines   `yaml:"engines"`
	Products []productRow         `yaml:"products"`
}

type layout struct {
	MemorySlices  int          `yaml:"memorySlices"`
	ComputeSlices int          `yaml:"computeSlices"`
	Source        string       `yaml:"source"`
	Profiles      []profileRow `yaml:"profiles"`
}

type profileRow struct {
	Key    string `yaml:"key"`
	Number int    `yaml:"number"`
	ID     uint32 `yaml:"id"`
	Size   int    `yaml:"size"`
	Starts []int  `yaml:"starts"`
	Max    int    `yaml:"max"`
}

type computeRow struct {
	Slices int   `yaml:"slices"`
	Number int   `yaml:"number"`
	Starts []int `yaml:"starts"`
}

type engines struct {
	Source   string            `yaml:"source"`
	Profiles map[string][6]int `yaml:"profiles"`
}

type productRow struct {
	Name       string         `yaml:"name"`
	Devices    []uint32       `yaml:"devices"`
	NeedsReset bool           `yaml:"needsReset"`
	Layout     string         `yaml:"layout"`
	Engines    string         `yaml:"engines"`
	MemoryMiB  uint64         `yaml:"memoryMiB"`
	SlicesMiB  map[int]uint64 `yaml:"slicesMiB"`
	Verified   bool           `yaml:"verified"`
	Source     string         `yaml:"source"`
}

// read reads a table. It returns an error unless all products are complete.
func read(data []byte) (table, error) {
	var t table
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&t); err != nil {
		return table{}, fmt.Errorf("read table of boards: %w", err)
	}
	for _, row := range t.Products {
		if _, err := t.product(row); err != nil {
			return table{}, fmt.Errorf("read table of boards: product %s: %w", row.Name, err)
		}
	}
	return t, nil
}
