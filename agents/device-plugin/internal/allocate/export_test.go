package allocate

// Score says how well two GPUs, named by their NVML indices, reach each other.
func (t *Topology) Score(a, b int) int { return int(t.between(t.row(a), t.row(b))) }
