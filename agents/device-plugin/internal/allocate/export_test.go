package allocate

// Score says how well two GPUs, named by their NVML indices, reach each other.
func (t *Topology) Score(a, b int) int { return int(t.between(t.row(a), t.row(b))) }

// Preferred makes a request for size of the available devices, and answers it.
func (a *Allocator) Preferred(available, must []string, size int) ([]string, error) {
	r := a.Request()
	for _, id := range available {
		r.Available([]byte(id))
	}
	return r.Preferred(must, size)
}
