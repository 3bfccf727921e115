package containercli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/pkg/driverroot"
)

// capabilities adds a flag for each driver capability.
func (f *flags) capabilities() map[string]*bool {
	out := map[string]*bool{}
	for _, c := range []struct{ name, letter, usage string }{
		{"compute", "c", "give the container CUDA and OpenCL"},
		{"utility", "u", "give the container NVML and nvidia-smi"},
		{"video", "v", "give the container the video codecs"},
		{"graphics", "g", "give the container OpenGL and Vulkan"},
		{"display", "D", "let the container use displays"},
		{"ngx", "n", "give the container NGX"},
		{"compat32", "", "no effect: 32-bit libraries are not searched for"},
	} {
		out[c.name] = f.boolean(c.name, c.letter, c.usage)
	}
	return out
}

func configureCommand() command {
	f := newFlags("configure", "ROOTFS", "Give GPUs to a container that is created, but not started.")
	asked := f.selection()
	caps := f.capabilities()
	pid := f.Int("pid", 0, "the `PID` of the container's first process")
	f.IntVar(pid, "p", 0, "")
	f.letters["pid"] = "p"
	conditions := f.list("require", "r", "fail unless the driver and the GPUs meet `CONDITION`, for example \"cuda>=12.4\"")
	ldconfig := f.text("ldconfig", "l", "@/sbin/ldconfig", "no effect, since the loader's cache is written directly: `@PROGRAM` of the host; a program of the container is rejected")
	noCgroups := f.boolean("no-cgroups", "", "do not change the container's device cgroup")
	noDevices := f.boolean("no-devbind", "", "do not create device nodes in the container")
	compat := f.text("cuda-compat-mode", "", string(container.CompatLdconfig), "how the container uses the CUDA compatibility libraries of its image: `MODE` ldconfig, mount (which does the same) or disabled")
	left := f.exclusions()
	dryRun := f.boolean("dry-run", "", "print the host's paths of the device nodes and files without changing anything; needs no container")
	return command{f, func(g global, args []string, stdout io.Writer) error {
		if *dryRun && len(args) == 0 {
			args = []string{""}
		} else if len(args) != 1 || *pid <= 0 {
			return errors.New("name the container: --pid=PID and the path of its root file system")
		}
		if !strings.HasPrefix(*ldconfig, "@/") {
			return fmt.Errorf("--ldconfig=%s is a program of the container, which would run with the rights of the host: use a program of the host, as in @/sbin/ldconfig", *ldconfig)
		}
		to := container.Container{PID: *pid, Rootfs: args[0], NoCgroups: *noCgroups, NoDevices: *noDevices}
		var err error
		if to.Compat, err = container.ParseCompatMode(cmp.Or(*compat, string(container.CompatLdconfig))); err != nil {
			return err
		}
		r, err := asked.request()
		if err != nil {
			return err
		}
		var names []string
		for name, set := range caps {
			if *set {
				names = append(names, name)
			}
		}
		if r.Capabilities, err = driverroot.ParseCapabilities(names...); err != nil {
			return err
		}
		cfg, n, err := g.read()
		if err != nil {
			return err
		}
		left.apply(n.Content)
		if err := cfg.Require(n, r, *conditions); err != nil {
			return err
		}
		if *dryRun {
			return printPlan(stdout, cfg, n, r)
		}
		cdihook.Limit()
		return cfg.Configure(n, to, r)
	}}
}

// printPlan prints the files and device nodes that a container would get. The distribution of the
// image is not known, but it only decides where the container gets the libraries.
func printPlan(stdout io.Writer, cfg container.Config, n *container.Node, r container.Request) error {
	plan, err := cfg.Plan(n, r, false)
	if err != nil {
		return err
	}
	for _, node := range plan.Nodes {
		fmt.Fprintln(stdout, node.Path)
	}
	for _, file := range slices.Concat(plan.Files, plan.Sockets) {
		fmt.Fprintln(stdout, file.HostPath)
	}
	return nil
}
