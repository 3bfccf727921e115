// Package outages_test runs the agents on simulated nodes, many at a time, as the processes that
// nodes run, and makes the symbols of NVML that they call fail for a while.
package outages_test
