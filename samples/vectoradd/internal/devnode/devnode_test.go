package devnode_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"outrigger.dev/samples/vectoradd/internal/devnode"
)

func TestFaultNamesTheNodeAndTheFix(t *testing.T) {
	ok := func(path string) devnode.State { return devnode.State{Path: path} }
	bad := func(path string, errno syscall.Errno) devnode.State {
		return devnode.State{Path: path, Err: &fs.PathError{Op: "open", Path: path, Err: errno}}
	}
	control, uvm, gpu := ok("/dev/nvidiactl"), ok("/dev/nvidia-uvm"), ok("/dev/nvidia0")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	tests := map[string]struct {
		nodes devnode.Nodes
		want  []string
	}{
		"all open":                    {devnode.Nodes{Control: control, UVM: uvm, GPUs: []devnode.State{gpu}}, nil},
		"one of two GPUs is not ours": {devnode.Nodes{Control: control, UVM: uvm, GPUs: []devnode.State{gpu, bad("/dev/nvidia1", syscall.EPERM)}}, nil},
		"no node of a GPU":            {devnode.Nodes{Control: control, UVM: uvm}, []string{"no node of a GPU", "nvidia.com/gpu: 1"}},
		"the only GPU is not ours":    {devnode.Nodes{Control: control, UVM: uvm, GPUs: []devnode.State{bad("/dev/nvidia3", syscall.EPERM)}}, []string{"/dev/nvidia3", "EPERM", "may not use"}},
		"file mode forbids":           {devnode.Nodes{Control: bad("/dev/nvidiactl", syscall.EACCES), UVM: uvm, GPUs: []devnode.State{gpu}}, []string{"/dev/nvidiactl", "EACCES", "NVreg_DeviceFileMode"}},
		"unified memory has no node":  {devnode.Nodes{Control: control, UVM: bad("/dev/nvidia-uvm", syscall.ENOENT), GPUs: []devnode.State{gpu}}, []string{"/dev/nvidia-uvm", "missing", "nvidia-modprobe"}},
		"no module for the node":      {devnode.Nodes{Control: bad("/dev/nvidiactl", syscall.ENXIO), UVM: uvm, GPUs: []devnode.State{gpu}}, []string{"has no driver", "nvidia_uvm"}},
		"a GPU that fails to open":    {devnode.Nodes{Control: control, UVM: uvm, GPUs: []devnode.State{bad("/dev/nvidia0", syscall.EIO)}}, []string{"/dev/nvidia0", "NVRM"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.nodes.Fault(false)
			if len(tc.want) == 0 && got != "" {
				t.Errorf("got %q, want no fault", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
		})
	}
}

func TestCheckOpensTheNodes(t *testing.T) {
	root := t.TempDir()
	dev := filepath.Join(root, "dev")
	if err := os.Mkdir(dev, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nvidiactl", "nvidia0", "nvidia10", "nvidia-caps", "nvidia-modeset", "null"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nodes := devnode.Check(root)
	if nodes.Control.Err != nil {
		t.Errorf("nvidiactl: %v", nodes.Control.Err)
	}
	if len(nodes.GPUs) != 2 || nodes.GPUs[1].Path != filepath.Join(dev, "nvidia10") {
		t.Errorf("GPUs: %v", nodes.GPUs)
	}
	if got := nodes.Fault(false); !strings.Contains(got, "nvidia-uvm is missing") {
		t.Errorf("fault: %q", got)
	}
}

// The nodes of a lost GPU answer as if there were no driver. The driver knows better.
func TestNodesAreNotTheCauseIfTheDriverAnswers(t *testing.T) {
	bad := func(path string, errno syscall.Errno) devnode.State {
		return devnode.State{Path: path, Err: &fs.PathError{Op: "open", Path: path, Err: errno}}
	}
	unserved := devnode.Nodes{
		Control: bad("/dev/nvidiactl", syscall.ENXIO), UVM: bad("/dev/nvidia-uvm", syscall.ENXIO),
		GPUs: []devnode.State{bad("/dev/nvidia0", syscall.ENODEV)},
	}
	if got := unserved.Fault(true); got != "" {
		t.Errorf("got %q, want no fault", got)
	}
	unserved.GPUs[0] = bad("/dev/nvidia0", syscall.EPERM)
	if got := unserved.Fault(true); !strings.Contains(got, "EPERM") {
		t.Errorf("got %q, want the permission", got)
	}
}
