package gpu

// MemoryFault is a lasting state of the memory of a GPU. The driver reports it until the GPU is
// reset, and RowRemapFailed until the GPU is replaced.
type MemoryFault string

// The values of MemoryFault.
const (
	// RowRemapFailed means that a broken row of memory could not be replaced by a spare row.
	RowRemapFailed MemoryFault = "row-remap-failed"
	// RowRemapPending means that a broken row is replaced when the GPU is reset.
	RowRemapPending MemoryFault = "row-remap-pending"
	// PageRetirementPending means that a broken page is retired when the GPU is reset. GPUs before
	// Ampere have pages instead of rows.
	PageRetirementPending MemoryFault = "page-retirement-pending"
	// UncorrectedECC means that the memory has had an uncorrectable error since the driver was loaded
	// or the GPU was reset.
	UncorrectedECC MemoryFault = "uncorrected-ecc"
)

// MemoryFaults returns all values of MemoryFault, the gravest first. It is the order in a GPU.
func MemoryFaults() []MemoryFault {
	return []MemoryFault{RowRemapFailed, UncorrectedECC, RowRemapPending, PageRetirementPending}
}
