//go:build e2e

package qemu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/qemu"
)

// TestPackagesInAGuest runs the tests of packages whose subject the kernel decides, in a
// guest that has cgroups of version 2 alone.
func TestPackagesInAGuest(t *testing.T) {
	for name, tc := range map[string]struct {
		folder string
		// tests are the tests to run, as a pattern.
		tests string
		// node is set if they need a simulated node and runc.
		node bool
		// options are those of the kernel.
		options []string
		// modules are kernel modules of the guest, below bin/qemu/modules.
		modules []string
		// skipped are the tests that need something else than the guest.
		skipped []string
	}{
		"devices of a cgroup": {
			folder:  "agents/container-toolkit/internal/devcgroup",
			tests:   ".",
			skipped: []string{"TestAllowByFile", "TestAllowByFileBelowACgroupThatDoesNot"},
		},
		"devices of a cgroup, with programs that the kernel hardens": {
			folder:  "agents/container-toolkit/internal/devcgroup",
			tests:   "ByProgram",
			options: []string{"sysctl.net.core.bpf_jit_harden=2"},
		},
		"containers of runc with the prestart hook": {
			folder: "agents/container-toolkit/internal/prestart",
			tests:  "^TestContainerGetsTheGPUsThatItAsksFor$",
			node:   true,
		},
		"modules of the kernel": {
			folder:  "agents/driver-loader/internal/kernel",
			tests:   "^TestGuest",
			modules: []string{"drivers/net/dummy.ko", "drivers/net/vxlan/vxlan.ko", "net/ipv4/udp_tunnel.ko", "net/ipv6/ip6_udp_tunnel.ko", "fs/fuse/fuse.ko"},
			skipped: []string{"TestGuestDemandsSignatures"},
		},
		"modules of a kernel that enforces signatures": {
			folder:  "agents/driver-loader/internal/kernel",
			tests:   "^TestGuestDemandsSignatures$",
			modules: []string{"drivers/net/dummy.ko"},
			options: []string{"module.sig_enforce=1"},
		},
		"modules of a kernel that is locked down": {
			folder:  "agents/driver-loader/internal/kernel",
			tests:   "^TestGuestDemandsSignatures$",
			modules: []string{"drivers/net/dummy.ko"},
			options: []string{"lockdown=integrity"},
		},
		"processes that hold devices": {
			folder: "pkg/holders",
			tests:  ".",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			m := machine(t)
			m.Options = tc.options
			if tc.node {
				addNode(t, &m)
			}
			for _, module := range tc.modules {
				m.Files["/lib/modules/"+module] = read(t, filepath.Join(os.Getenv("OUTRIGGER_BIN"), "qemu/modules", module))
			}
			m.Files["/usr/bin/test"] = compile(t, tc.folder)
			code, out, err := m.Run(ctx, "/usr/bin/test", "-test.v", "-test.run", tc.tests)
			if err != nil || code != 0 {
				t.Fatalf("exit code %d, %v\n%s", code, err, out)
			}
			var skipped []string
			for line := range strings.Lines(out) {
				if rest, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
					skipped = append(skipped, strings.Fields(rest)[0])
				}
			}
			if got, want := strings.Join(skipped, " "), strings.Join(tc.skipped, " "); got != want {
				t.Errorf("skipped %q, want %q\n%s", got, want, out)
			}
			if !strings.Contains(out, "--- PASS: ") {
				t.Errorf("no test passed\n%s", out)
			}
		})
	}
}

// TestExitCode checks that a failure in the guest is seen.
func TestExitCode(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	code, out, err := machine(t).Run(ctx, "/nothing")
	if err != nil || code != 126 || !strings.Contains(out, "/nothing") {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
}

func machine(t *testing.T) qemu.Machine {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("this machine has another processor than the guest's kernel")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Fatal("install qemu: apt-get install --no-install-recommends qemu-system-x86")
	}
	kernel := filepath.Join(os.Getenv("OUTRIGGER_BIN"), "qemu", "vmlinuz")
	if _, err := os.Stat(kernel); err != nil {
		t.Fatalf("%v: run: make everything", err)
	}
	return qemu.Machine{Kernel: kernel, Init: build(t, ".", "build", "./internal/init"), Files: map[string][]byte{}}
}

// addNode adds what a simulated node and runc need: the programs, the libraries that they
// link, the commands of a shell, and the file system overlay.
func addNode(t *testing.T, m *qemu.Machine) {
	t.Helper()
	m.MemoryMiB = 1536
	bin := os.Getenv("OUTRIGGER_BIN")
	m.Files["/guest/modules/overlay.ko"] = read(t, filepath.Join(bin, "qemu/modules/fs/overlayfs/overlay.ko"))
	for _, name := range []string{"gpu-sim", "vectoradd", "cluster-components/runc", "lib/libcuda.so.1", "lib/libnvidia-ml.so.1"} {
		addProgram(t, m, filepath.Join(bin, name), "/outrigger/bin/"+name)
	}
	// The folders of a distribution, over which the simulator lays the driver's.
	for _, folder := range []string{"/lib/firmware", "/usr/lib/x86_64-linux-gnu", "/usr/share"} {
		m.Files[folder+"/.keep"] = nil
	}
	m.Files["/sbin/ldconfig"] = read(t, "/sbin/ldconfig")
	m.Files["/usr/bin/busybox"] = read(t, "/bin/busybox")
	m.Links = map[string]string{"/bin": "usr/bin"}
	for _, command := range []string{"sh", "cp", "mkdir", "mount", "nsenter", "true"} {
		m.Links["/usr/bin/"+command] = "busybox"
	}
	m.Env = []string{"OUTRIGGER_BIN=/outrigger/bin"}
}

// addProgram adds a program or a library of this machine, and the libraries that it links.
func addProgram(t *testing.T, m *qemu.Machine, program, path string) {
	t.Helper()
	m.Files[path] = read(t, program)
	for _, library := range libraries(t, program) {
		m.Files[library] = read(t, library)
	}
}

// libraries returns the paths of the libraries that a program links, and of its loader. A
// static program has none.
func libraries(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ldd", program).CombinedOutput()
	if strings.Contains(string(out), "not a dynamic executable") {
		return nil
	}
	if err != nil {
		t.Fatalf("ldd %s: %v\n%s", program, err, out)
	}
	var found []string
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			found = append(found, word)
		}
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compile returns the static test binary of a package.
func compile(t *testing.T, folder string) []byte {
	t.Helper()
	return read(t, build(t, filepath.Join("../..", folder), "test", "-vet=off", "-c", "."))
}

// goCommand runs Go with the flags of the programs in bin/, so that Go's cache has the shared packages.
const goCommand = `. "$0/tools/compile.env" && unset GOMEMLIMIT && command=$1 && shift && exec go "$command" -tags "$tags,grpcnotrace,urfave_cli_no_docs,e2e" "$@"`

// built is the folder of what build has built.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "qemu"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// build runs "go args… -o FILE package" in a folder, once, and returns the file.
func build(t *testing.T, folder string, args ...string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(built, strings.ReplaceAll(strings.Join(append(args, folder), " "), "/", "_"))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	last := len(args) - 1
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", goCommand, root}, append(args[:last:last], "-o", file, args[last])...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return file
}
