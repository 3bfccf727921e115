// Package upgrade upgrades the driver of a node that has work: it waits for its turn, moves
// the work away, has the driver swapped, and makes the node schedulable again, whether that
// succeeded or not.
//
// Next derives the next Action from a Journal and an Observation, and After the next Journal
// from how it went; both are pure. The states, labels and
// annotations are those of NVIDIA's upgrade controller.
package upgrade
