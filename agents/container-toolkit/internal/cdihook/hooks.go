package cdihook

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// hook is a hook of the command line. Its flags describe a Job.
type hook struct {
	name, usage string
	flags       func(*flag.FlagSet, *Job)
	// always changes the Job, whatever the flags are. It may be nil.
	always func(*Job)
}

// hooks returns the hooks of NVIDIA's nvidia-cdi-hook, and prepare-container.
func hooks() []hook {
	return []hook{
		{name: "prepare-container", usage: "run the next five hooks in one process", flags: prepareFlags},
		{name: "create-symlinks", usage: "create symbolic links", flags: linkFlags},
		{name: "enable-cuda-compat", usage: "use the CUDA compatibility libraries of the image if they are newer than the driver", flags: compatFlags},
		{name: "update-ldcache", usage: "update the cache of the container's dynamic loader", flags: cacheFlags, always: func(j *Job) { j.Cache = true }},
		{name: "disable-device-node-modification", usage: "prevent programs from creating device nodes", always: func(j *Job) { j.KeepDevices = true }},
		{name: "update-application-profile", usage: "restrict EGL and Vulkan to the container's GPUs", always: func(j *Job) { j.Profile = true }},
		{name: "chmod", usage: "set the mode of folders", flags: modeFlags},
		{name: "noop", usage: "do nothing"},
	}
}

// parse returns the Job that the arguments of a hook describe, and the file of the container's
// state. The file is "" for standard input. parse sets quiet if the arguments have --quiet.
func (h hook) parse(args []string, quiet *bool, help io.Writer) (Job, string, error) {
	var j Job
	set := flag.NewFlagSet(h.name, flag.ContinueOnError)
	// The caller prints errors on one line.
	set.SetOutput(io.Discard)
	globalFlags(set, quiet)
	state := set.String("container-spec", "", "read the container's state from `FILE`, by default from standard input")
	if h.flags != nil {
		h.flags(set, &j)
	}
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(help, "%s: %s\n\nFlags:\n", h.name, h.usage)
		set.SetOutput(help)
		set.PrintDefaults()
		return Job{}, "", nil
	}
	if err != nil {
		return Job{}, "", fmt.Errorf("%s: %w", h.name, err)
	}
	if set.NArg() > 0 {
		return Job{}, "", fmt.Errorf("%s: unexpected argument %q", h.name, set.Arg(0))
	}
	if h.always != nil {
		h.always(&j)
	}
	if *state == "-" {
		*state = ""
	}
	return j, *state, j.complete()
}

// complete returns an error for missing flags.
func (j Job) complete() error {
	if len(j.Modes) > 0 && j.Modes[0].Perm == 0 {
		return errors.New("chmod: --mode is missing: name an octal mode such as 755")
	}
	return nil
}

func prepareFlags(set *flag.FlagSet, j *Job) {
	linkFlags(set, j)
	compatFlags(set, j)
	cacheFlags(set, j)
	set.BoolVar(&j.KeepDevices, "disable-device-node-modification", false, "prevent programs from creating device nodes")
	set.BoolVar(&j.Profile, "update-application-profile", false, "restrict EGL and Vulkan to the container's GPUs")
}

func linkFlags(set *flag.FlagSet, j *Job) {
	set.Func("link", "create a link, `TARGET::LINK`; may be repeated", func(s string) error {
		target, link, ok := strings.Cut(s, "::")
		if !ok || target == "" || link == "" || strings.Contains(link, "::") {
			return errors.New("must be TARGET::LINK")
		}
		j.Links = append(j.Links, Link{Target: target, Path: link})
		return nil
	})
}

func compatFlags(set *flag.FlagSet, j *Job) {
	set.StringVar(&j.Compat.Driver, "host-driver-version", "", "`VERSION` of the host's driver")
	set.StringVar(&j.Compat.CUDA, "host-cuda-version", "", "`VERSION` of CUDA that the host's driver supports")
	set.StringVar(&j.Compat.Folder, "cuda-compat-container-root", defaultCompat, "`FOLDER` of the CUDA compatibility libraries in the container")
}

func cacheFlags(set *flag.FlagSet, j *Job) {
	set.Func("folder", "`FOLDER` with libraries in the container; may be repeated", func(s string) error {
		j.Cache, j.Folders = true, append(j.Folders, s)
		return nil
	})
	// NVIDIA's specs set this flag. The hook does not run ldconfig.
	set.String("ldconfig-path", "", "not used: the hook writes the cache itself")
}

func modeFlags(set *flag.FlagSet, j *Job) {
	var perm fs.FileMode
	set.Func("path", "`FOLDER` in the container; may be repeated", func(s string) error {
		for p := range strings.SplitSeq(s, ",") {
			j.Modes = append(j.Modes, Mode{Path: p, Perm: perm})
		}
		return nil
	})
	set.Func("mode", "octal `MODE`", func(s string) error {
		n, err := strconv.ParseUint(s, 8, 32)
		if err != nil || n&^0o777 != 0 || n == 0 {
			return errors.New("must be an octal mode such as 755")
		}
		perm = fs.FileMode(n)
		for i := range j.Modes {
			j.Modes[i].Perm = perm
		}
		return nil
	})
}
