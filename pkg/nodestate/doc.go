// Package nodestate keeps what one writer publishes on the Node object of its node: labels and
// annotations, a condition, a start-up taint that it removes, and a cordon.
//
// Each writer is a field manager of its own: what it has applied and no longer desires is removed,
// and what others own stays. A Writer sends only differences, and writes again what others have
// changed, slower and slower if they go on. A Keeper is a Writer with a loop around it, for a writer
// that has no loop itself.
package nodestate
