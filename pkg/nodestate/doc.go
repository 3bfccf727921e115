// Package nodestate publishes the state of one writer on its Node object: labels and annotations, a
// condition, a start-up taint that it removes, and a cordon.
//
// Each writer is a separate field manager. Fields that it has applied and no longer desires are
// removed, and fields of other managers stay. A Writer sends only differences. It writes fields
// again that others have changed, with growing delays if they continue. A Keeper is a Writer with a
// loop, for a writer without a loop.
package nodestate
