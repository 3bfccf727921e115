package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

const (
	// retryFirst and retryMost are the first and the longest pause after a build that failed for a
	// reason outside of its inputs. The loader looks at least every 15 minutes whether the pause is
	// over, so the next build begins within an hour.
	retryFirst, retryMost = time.Minute, 45 * time.Minute
	maxAttempt            = 64 << 10
)

// attempt is the last failed build for a kernel.
type attempt struct {
	// Inputs is the digest of everything that the build depended on, see Builder.inputs.
	Inputs string      `json:"inputs"`
	Cause  cause.Cause `json:"cause"`

	// next is the time of the next try. If it is zero, the compiler rejected the inputs, and rejects
	// them again.
	next  time.Time
	pause pace.Backoff
}

func newPause() pace.Backoff { return pace.Backoff{First: retryFirst, Most: retryMost} }

// attempts remembers failed builds. A build that the compiler rejected is also recorded in the store,
// so that the next process knows it. A new process tries all other builds at once: a person may have
// corrected the reason.
type attempts struct {
	// store is the agent's store.
	store string

	mu   sync.Mutex
	last map[string]*attempt // by release
}

func (a *attempts) path(release string) string {
	return filepath.Join(a.store, "build", release+".failed.json")
}

// find returns the last failed build for a release, or nil.
func (a *attempts) find(release string) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.last[release]; last != nil {
		return last
	}
	data, err := hostfs.ReadFile(a.path(release), maxAttempt)
	recorded := attempt{pause: newPause()}
	if err != nil || json.Unmarshal(data, &recorded) != nil {
		return nil // another build replaces a damaged record
	}
	return &recorded
}

// failed records a failed build. It reports whether the previous build of these inputs, if there was
// one, had a cause with another code. Otherwise, the previous cause stays: compilers that run at the same
// time fail in any order. The pause grows until the inputs change, whatever the cause.
func (a *attempts) failed(release, inputs string, why cause.Cause, now time.Time) (news bool, err error) {
	before := a.find(release)
	a.mu.Lock()
	defer a.mu.Unlock()
	next := &attempt{Inputs: inputs, Cause: why, pause: newPause()}
	same := before != nil && before.Inputs == inputs
	if same {
		next.pause = before.pause
	}
	news = !same || before.Cause.Code != why.Code
	if !news {
		next.Cause = before.Cause
	}
	if a.last == nil {
		a.last = map[string]*attempt{}
	}
	a.last[release] = next
	if why.Code != cause.ModuleBuildFailed {
		next.next = now.Add(next.pause.Next())
		return news, nil
	}
	data, err := json.Marshal(next)
	if err == nil {
		_, err = hostfs.WriteIfChanged(a.path(release), data, 0o600)
	}
	return news, err
}

// forget removes the failed build of a release, or of all releases for "".
func (a *attempts) forget(release string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, release)
	if release != "" {
		if err := os.Remove(a.path(release)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	a.last = nil
	files, err := filepath.Glob(a.path("*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// Forget makes the next build of a failed request possible at once.
func (b *Builder) Forget() error { return b.attempts().forget("") }

func (b *Builder) attempts() *attempts {
	b.failures.mu.Lock()
	defer b.failures.mu.Unlock()
	b.failures.store = b.Places.Store
	return &b.failures
}

// Failure returns the cause of the last build of a request with the same inputs, if that failed, or nil.
// It reports whether building now is of no use: the compiler rejected the inputs, or the pause after
// another failure is not over.
func (b *Builder) Failure(ctx context.Context, r Request) (why *cause.Cause, pending bool) {
	last := b.attempts().find(r.Release)
	if last == nil {
		return nil, false
	}
	if inputs, err := b.inputs(ctx, r); err != nil || inputs != last.Inputs {
		return nil, false //nolint:nilerr // without its inputs, the build is tried again
	}
	return &last.Cause, last.next.IsZero() || b.now().Before(last.next)
}

// record records the result of a build with the given inputs, and reports a failure. It ignores results that say
// nothing about the next build: the end of ctx, a store in use, and inputs that were changed during the build.
func (b *Builder) record(ctx context.Context, r Request, inputs string, result error) error {
	if result == nil {
		return b.attempts().forget(r.Release)
	}
	if ctx.Err() != nil || cause.Is(result, cause.StoreBusy) {
		return nil //nolint:nilerr // it says nothing about the next build
	}
	after, err := b.inputs(ctx, r)
	if err != nil {
		return nil //nolint:nilerr // without its inputs, the build is tried again
	}
	if after != inputs {
		return nil // a person may have corrected the reason
	}
	why, is := errors.AsType[cause.Cause](result)
	if !is {
		why = cause.New(cause.Failed, "modules for kernel "+r.Release, text.OneLine(result))
	}
	news, err := b.attempts().failed(r.Release, inputs, why, b.now())
	if news && b.Failed != nil {
		b.Failed(why)
	}
	return err
}

// inputs returns a digest of everything that a build depends on: the driver, the kernel, the files of its
// headers, the compiler, the parameters of the build, and this program.
func (b *Builder) inputs(ctx context.Context, r Request) (string, error) {
	hash := sha256.New()
	record := json.NewEncoder(hash)
	err := record.Encode([]any{r.Key(""), b.excluded(r), version.String()})
	h, missing := b.Places.Headers(r.Release)
	if missing != nil {
		return hex.EncodeToString(hash.Sum(nil)), err
	}
	compiler, compilerErr := ChooseCompiler(ctx, h.Compiler)
	err = errors.Join(err, compilerErr, record.Encode([]any{h, compiler}))
	for _, dir := range slices.Compact([]string{h.Build, h.Source}) {
		err = errors.Join(err, recordFiles(record, dir))
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}

// ToolsID returns a digest of what the build of an optional module depends on beside sources: the files of the headers
// of the kernel and of the driver of network adapters, the compiler, and this program.
func (b *Builder) ToolsID(ctx context.Context, release, machine string) (string, error) {
	inputs, err := b.inputs(ctx, Request{Release: release, Machine: machine})
	hash := sha256.New()
	record := json.NewEncoder(hash)
	err = errors.Join(err, record.Encode(inputs))
	if network := b.Places.Network(release, machine); network.ID != "" {
		err = errors.Join(err, recordFiles(record, network.Base))
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}

// recordFiles records the files below a folder, with their sizes and times.
func recordFiles(record *json.Encoder, dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return record.Encode([]any{path, info.Size(), info.ModTime().UnixNano()})
	})
}
