package build_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/cause"
)

// tried is a node on which builds fail.
type tried struct {
	*build.Builder
	t       *testing.T
	root    string
	request build.Request
	now     time.Time
	events  []cause.Code
	// runs is the path of a file that gets a line from recipes of the Makefile.
	runs string
}

// newTried returns a node with the headers of a kernel, a compiler that only says its version, and sources
// with a Makefile. The word RUNS in the Makefile is replaced by the path of runs.
func newTried(t *testing.T, makefile string) *tried {
	t.Helper()
	r := &tried{t: t, root: t.TempDir(), now: time.Unix(0, 0), runs: filepath.Join(t.TempDir(), "runs")}
	r.Builder = newBuilder(t, r.root)
	r.watch(r.Builder)
	r.request = build.Request{Release: "6.1.0-1-amd64", Machine: "x86_64", Flavour: payload.Open}
	r.driver(makefile)
	fakeHeaders(t, r.root, r.request.Release, "gcc (Fake) 9.9.9")
	programs := t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	r.compiler(programs, "9.9.9")
	return r
}

func (r *tried) watch(b *build.Builder) {
	b.Clock = func() time.Time { return r.now }
	b.Failed = func(c cause.Cause) { r.events = append(r.events, c.Code) }
}

func (r *tried) driver(makefile string) {
	r.request.Payload = sources(r.t, r.Places.Store, edited(r.t, "Makefile", strings.ReplaceAll(makefile, "RUNS", r.runs)))
}

func (r *tried) compiler(dir, version string) {
	program := filepath.Join(dir, "gcc")
	write(r.t, program, "#!/bin/sh\necho 'gcc (Fake) "+version+"'\n")
	assert.NilError(r.t, os.Chmod(program, 0o700))
}

// again does what the agent does: it builds unless a failure is pending, and returns the cause.
func (r *tried) again() cause.Code {
	r.t.Helper()
	if why, pending := r.Failure(r.t.Context(), r.request); pending {
		return why.Code
	}
	_, err := r.Build(r.t.Context(), r.request)
	return code(err)
}

func (r *tried) built() int {
	data, _ := os.ReadFile(r.runs)
	return strings.Count(string(data), "\n")
}

// failing returns a Makefile whose build prints a line and fails.
func failing(line string) string {
	return fmt.Sprintf("modules:\n\t@echo run >> RUNS; echo \"%s\"; exit 1\n", line)
}

const rejected = "nv.c:1:1: error: unknown type name"

func TestABuildThatTheCompilerRejectsIsRepeatedAfterAChange(t *testing.T) {
	for name, change := range map[string]func(r *tried){
		"":        func(*tried) {},
		"sources": func(r *tried) { r.driver(failing(rejected) + "# changed\n") },
		"kernel": func(r *tried) {
			r.request.Release = "6.1.0-2-amd64"
			fakeHeaders(r.t, r.root, r.request.Release, "gcc (Fake) 9.9.9")
		},
		"headers": func(r *tried) {
			write(r.t, r.root+"/usr/src/linux-headers-"+r.request.Release+"/Module.symvers", "new")
		},
		"compiler":   func(r *tried) { r.compiler(strings.Split(os.Getenv("PATH"), ":")[0], "9.9.10") },
		"parameters": func(r *tried) { r.request.Exclude = []string{"nvidia-drm"} },
		"SIGHUP":     func(r *tried) { assert.NilError(r.t, r.Forget()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTried(t, failing(rejected))
			for range 3 {
				if got := r.again(); got != cause.ModuleBuildFailed {
					t.Fatal(got)
				}
				r.now = r.now.Add(20 * time.Minute)
			}
			r.now = r.now.AddDate(1, 0, 0)
			// The next process of the agent.
			r.Builder = &build.Builder{Places: r.Places, Log: r.Log}
			r.watch(r.Builder)
			if got := r.again(); got != cause.ModuleBuildFailed || r.built() != 1 || !slices.Equal(r.events, []cause.Code{got}) {
				t.Fatalf("%s, built %d times, events %v", got, r.built(), r.events)
			}
			change(r)
			want := 2
			if name == "" {
				want = 1
			}
			if got := r.again(); got != cause.ModuleBuildFailed || r.built() != want || len(r.events) != want {
				t.Errorf("%s, built %d times, events %v, want %d", got, r.built(), r.events, want)
			}
		})
	}
}

func TestABuildThatIsInterruptedIsRepeatedAfterPauses(t *testing.T) {
	for line, want := range map[string]cause.Code{
		"gcc: fatal error: Killed signal terminated program cc1":                         cause.ModuleBuildKilled,
		"gcc: internal compiler error: Segmentation fault signal terminated program cc1": cause.ModuleBuildKilled,
		"make[2]: *** [scripts/Makefile.build:250: nv.o] Terminated":                     cause.ModuleBuildKilled,
		"virtual memory exhausted: Cannot allocate memory":                               cause.ModuleBuildKilled,
		"make[2]: vfork: Resource temporarily unavailable":                               cause.ModuleBuildKilled,
		"make: posix_spawn: Resource temporarily unavailable":                            cause.ModuleBuildKilled,
		"nv.c:1:10: fatal error: nv.h: Too many open files":                              cause.ModuleBuildKilled,
		"nv.c:1:10: fatal error: nv.h: Input/output error":                               cause.ModuleBuildKilled,
		"nv.c:1:1: fatal error: error writing to nv.s: Read-only file system":            cause.FolderReadOnly,
		"nv.s: No space left on device":                                                  cause.NoSpace,
		"make[1]: gcc-12: No such file or directory":                                     cause.BuildToolsMissing,
		"modpost: /lib/libc.so.6: version GLIBC_2.38' not found (required by modpost)":   cause.KernelHeadersForeign,
	} {
		t.Run(line, func(t *testing.T) {
			r := newTried(t, failing(line))
			tries := 0
			for end := r.now.Add(3 * time.Hour); r.now.Before(end); r.now = r.now.Add(time.Minute) {
				before := r.built()
				if got := r.again(); got != want {
					t.Fatalf("after %s: %s, want %s", r.now.Sub(time.Unix(0, 0)), got, want)
				}
				if r.built() > before {
					tries++
				}
			}
			// After 1, 2, 4, 8, 16 and 32 minutes, then each 45 minutes.
			if tries != 1+6+2 || !slices.Equal(r.events, []cause.Code{want}) {
				t.Errorf("%d tries in 3 hours, events %v", tries, r.events)
			}
			r.Builder = &build.Builder{Places: r.Places, Log: r.Log}
			if r.again(); r.built() != tries+1 {
				t.Error("the next process does not build at once")
			}
		})
	}
}

// A person corrects the node while the build runs.
func TestARepairDuringABuildIsTried(t *testing.T) {
	for name, repair := range map[string]func(r *tried) string{
		"headers": func(r *tried) string {
			return "echo new > " + r.root + "/usr/src/linux-headers-" + r.request.Release + "/Module.symvers"
		},
		"compiler": func(*tried) string {
			return "sed -i s/9.9.9/9.9.10/ " + filepath.Join(strings.Split(os.Getenv("PATH"), ":")[0], "gcc")
		},
		"headers of the network adapters": func(r *tried) string {
			dir := filepath.Join(r.Places.Mellanox, "usr/src/ofa_kernel/default")
			return "mkdir -p " + dir + "; echo > " + dir + "/Module.symvers"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTried(t, failing(rejected))
			r.Places.Mellanox = t.TempDir()
			r.driver("modules:\n\t@echo run >> RUNS; [ `wc -l < RUNS` -gt 1 ] || { " + repair(r) + "; }; echo '" + rejected + "'; exit 1\n")
			for _, want := range []int{1, 2, 2} {
				if got := r.again(); got != cause.ModuleBuildFailed || r.built() != want {
					t.Errorf("%s, built %d times, want %d", got, r.built(), want)
				}
			}
			if len(r.events) != 1 {
				t.Errorf("events %v", r.events)
			}
		})
	}
}

func TestABuildThatHasFetchedItsHeadersIsNotRepeated(t *testing.T) {
	r := newTried(t, failing(rejected))
	write(t, strings.Split(os.Getenv("PATH"), ":")[0]+"/gcc-12", "#!/bin/sh\necho fake\n")
	assert.NilError(t, os.Chmod(strings.Split(os.Getenv("PATH"), ":")[0]+"/gcc-12", 0o700))
	assert.NilError(t, os.RemoveAll(r.root+"/usr/src"))
	r.request.Release = wanted
	r.Repositories = &build.Repositories{Etc: etc(t, "file:"+repository(t))}
	for range 2 {
		if got := r.again(); got != cause.ModuleBuildFailed || r.built() != 1 {
			t.Errorf("%s, built %d times", got, r.built())
		}
	}
}

// The causes of a host that lacks resources alternate.
func TestPausesGrowAlthoughTheCauseChanges(t *testing.T) {
	const full, killed = "nv.s: No space left on device", "virtual memory exhausted: Cannot allocate memory"
	r := newTried(t, "modules:\n\t@echo run >> RUNS; [ $$(( `wc -l < RUNS` % 2 )) = 0 ] && echo '"+full+"' || echo '"+killed+"'; exit 1\n")
	for end := r.now.Add(3 * time.Hour); r.now.Before(end); r.now = r.now.Add(time.Minute) {
		r.again()
	}
	// After 1, 2, 4, 8, 16 and 32 minutes, then each 45 minutes.
	if r.built() != 1+6+2 {
		t.Errorf("%d tries in 3 hours, events %v", r.built(), r.events)
	}
}

func TestADownloadThatFailsIsRepeatedAfterPausesOrWithHeaders(t *testing.T) {
	r := newTried(t, failing(rejected))
	headers := r.root + "/usr/src/linux-headers-" + r.request.Release
	assert.NilError(t, os.Rename(headers, headers+".away"))
	if got := r.again(); got != cause.KernelHeadersMissing {
		t.Fatal(got)
	}
	if _, pending := r.Failure(t.Context(), r.request); !pending {
		t.Error("there is no pause")
	}
	r.now = r.now.Add(time.Minute)
	if why, pending := r.Failure(t.Context(), r.request); pending || why == nil {
		t.Errorf("after the pause: %v, pending: %v", why, pending)
	}
	r.again()
	assert.NilError(t, os.Rename(headers+".away", headers))
	if got := r.again(); got != cause.ModuleBuildFailed {
		t.Errorf("with headers: %s", got)
	}
}
