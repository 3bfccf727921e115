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

// snapshot is the state of a machine that a cluster could change.
type snapshot struct {
	// Processes in another network namespace than the test's, with their programs.
	Processes []string
	Mounts    []string
	Links     []string
	Routes    []string
	Cgroups   []string
	Sysctls   map[string]string
	Folders   []string
}

// clusterFolder matches the names of folders that a cluster's programs create. Other
// folders on a machine change all the time.
var clusterFolder = regexp.MustCompile(`outrigger|gpu-sim|kube|containerd|runc|etcd|cni|cdi|nri|netns|nvidia|pods|containers`)

// clusterCgroup matches the paths of cgroups that a cluster's programs create. Other programs of a
// machine, such as systemd, create and remove cgroups all the time.
var clusterCgroup = regexp.MustCompile(`outrigger|kube|k8s|containerd|runc|crio`)

// settleLimit is the time limit for the kernel, and for other programs on the machine, to
// finish their work.
const settleLimit = 10 * time.Second

// checkSame compares the machine with a snapshot from before.
func checkSame(t *testing.T, before snapshot) {
	t.Helper()
	limit := time.After(settleLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		after := takeSnapshot(t)
		// Other processes may end at any time.
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
			t.Errorf("the machine has changed (-before +after):\n%s", diff)
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
		if err == nil && d.IsDir() && clusterCgroup.MatchString(path) {
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

// foreignProcesses returns the processes in other network namespaces.
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
			continue // The process has ended, or is in this namespace.
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
