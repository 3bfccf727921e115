// Package boards has the products that can be divided into MIG devices, for plans and checks
// where there is no GPU. Its figures are published ones; at run time, NVML's own answer wins.
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
	// Name is short, as "a100-40".
	Name string
	// DeviceIDs are as in gpu.PCI.
	DeviceIDs []uint32
	// MemoryBytes is what NVML reports as the memory of the GPU.
	MemoryBytes uint64
	// NeedsReset is set if a change of the MIG mode takes effect after a reset of the GPU.
	NeedsReset bool
	Board      mig.Board
	// Verified is set if the figures were compared with a GPU.
	Verified bool
	// Source says where the figures come from.
	Source string
}

// All returns all products, in an order that does not change. The caller must not modify them.
func All() []Product { return slices.Clone(products()) }

// Find returns the product with a PCI device id. Where several have it, and differ in their
// memory, it is the one with the memory that is nearest to memoryBytes; 0 stands for memory
// that is not known, and finds the first. It reports false for a GPU that is not in the table,
// or whose memory differs by more than an eighth: the names of its profiles would be wrong.
func Find(pci gpu.PCI, memoryBytes uint64) (Product, bool) {
	var found []Product
	apart := func(p Product) uint64 { return max(p.MemoryBytes, memoryBytes) - min(p.MemoryBytes, memoryBytes) }
	for _, p := range products() {
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
	i := slices.IndexFunc(products(), func(p Product) bool { return p.Name == name })
	if i < 0 {
		return Product{}, false
	}
	return products()[i], true
}

var products = sync.OnceValue(func() []Product {
	list, err := read(source)
	if err != nil {
		panic(err) // a test reads the same file
	}
	return list
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

func read(data []byte) ([]Product, error) {
	var t table
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("read table of boards: %w", err)
	}
	var list []Product
	for _, row := range t.Products {
		p, err := t.product(row)
		if err != nil {
			return nil, fmt.Errorf("read table of boards: product %s: %w", row.Name, err)
		}
		list = append(list, p)
	}
	return list, nil
}
