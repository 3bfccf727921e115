package podload

import (
	"os"
	"slices"
	"strconv"

	"outrigger.dev/pkg/procowner"
)

// firstProcesses returns the process with the lowest PID of each container, by the container's ID.
// It reads one file for each process of the node. It finds none if proc shows only the processes of
// this container.
func firstProcesses(proc string, containers []string) map[string]int {
	if len(containers) == 0 {
		return nil
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil // the loads show no processes
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	found := map[string]int{}
	for _, pid := range pids {
		id := procowner.Root{Proc: proc}.Process(pid).Owner.Container
		if slices.Contains(containers, id) && found[id] == 0 {
			found[id] = pid
		}
	}
	return found
}
