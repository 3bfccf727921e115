//go:build e2e

package cluster_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"outrigger.dev/test/cluster/internal/machine"
)

// snapshot is all of a machine that a cluster could leave a trace on.
type snapshot struct {
	// Processes in another network than the test's, each with its program.
	Processes []string
	Mounts    []string
	Links     []string
	Routes    []string
	Cgroups   []string
	Sysctls   map[string]string
	Folders   []string
}

// clusterFolder matches the names that a cluster's programs give to folders.
// Others come and go on a machine all the time.
var clusterFolder = regexp.MustCompile(`outrigger|gpu-sim|kube|containerd|runc|etcd|cni|cdi|nri|netns|nvidia|pods|containers`)

// settleLimit is how long the kernel, and others on the machine, may take to
// finish what they had begun.
const settleLimit = 10 * time.Second

// checkSame compares the machine with what it was before.
func checkSame(t *testing.T, before snapshot) {
	t.Helper()
	limit := time.After(settleLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		after := takeSnapshot(t)
		// Processes of others may end at any time.
		known := after.Processes[:0:0]
		for _, p := range before.Processes {
			if slices.Contains(after.Processes, p) {
				known = append(known, p)
			}
		}
		before.Processes = known
		diff := cmp.Diff(before, after, cmpopts.EquateEmpty())
		if diff == "" {
			return
		}
		select {
		case <-limit:
			t.Errorf("the machine is not as before (-before +after):\n%s", diff)
			return
		case <-tick.C:
		}
	}
}

func takeSnapshot(t *testing.T) snapshot {
	t.Helper()
	s := snapshot{Processes: foreignProcesses(t), Mounts: mountPoints(t)}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		s.Links = append(s.Links, l.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		s.Routes = append(s.Routes, r.String())
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			s.Cgroups = append(s.Cgroups, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Sysctls, err = machine.ReadSysctls(); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/run", "/var/lib", "/var/log", "/etc", "/opt", "/usr/local", "/mnt", home} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && clusterFolder.MatchString(e.Name()) {
				s.Folders = append(s.Folders, filepath.Join(dir, e.Name()))
			}
		}
	}
	return s
}

// foreignProcesses returns the processes that are in a network of their own.
func foreignProcesses(t *testing.T) []string {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		process := filepath.Dir(filepath.Dir(link))
		if net, err := os.Readlink(link); err != nil || net == own {
			continue // It ended meanwhile, or is one of ours.
		}
		program, err := os.Readlink(filepath.Join(process, "exe"))
		if err != nil {
			continue
		}
		found = append(found, process+" "+program)
	}
	sort.Strings(found)
	return found
}

func mountPoints(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for line := range strings.Lines(string(b)) {
		points = append(points, strings.Fields(line)[4])
	}
	sort.Strings(points)
	return points
}
