package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
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
	mu   sync.Mutex
	last map[string]*attempt // by release
}

// attemptPath returns the path of the record of a failed build for a release.
func (b *Builder) attemptPath(release string) string {
	return filepath.Join(b.Places.Store, "build", release+".failed.json")
}

// lastAttempt returns the last failed build for a release, or nil. The caller holds the lock.
func (b *Builder) lastAttempt(release string) *attempt {
	if last := b.failures.last[release]; last != nil {
		return last
	}
	recorded, err := hostfs.ReadJSON[attempt](b.attemptPath(release), maxAttempt)
	if err != nil {
		return nil // another build replaces a damaged record
	}
	recorded.pause = newPause()
	return &recorded
}

// recordFailure records a failed build. It reports whether the previous build of these inputs, if there was
// one, had a cause with another code. Otherwise, the previous cause stays: compilers that run at the same
// time fail in any order. The pause grows until the inputs change, whatever the cause.
func (b *Builder) recordFailure(release, inputs string, why cause.Cause) (news bool, err error) {
	a := &b.failures
	a.mu.Lock()
	defer a.mu.Unlock()
	before := b.lastAttempt(release)
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
		next.next = b.now().Add(next.pause.Next())
		return news, nil
	}
	return news, hostfs.WriteJSON(b.attemptPath(release), next, 0o600)
}

// Forget makes the next build of a failed request possible at once.
func (b *Builder) Forget() error { return b.forget("*") }

// forget removes the failed builds of the releases that match a pattern.
func (b *Builder) forget(pattern string) error {
	b.failures.mu.Lock()
	defer b.failures.mu.Unlock()
	files, err := filepath.Glob(b.attemptPath(pattern))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	maps.DeleteFunc(b.failures.last, func(release string, _ *attempt) bool { return pattern == "*" || release == pattern })
	return err
}

// Failure returns the cause of the last build of a request with the same inputs, if that failed, or nil.
// It reports whether building now is of no use: the compiler rejected the inputs, or the pause after
// another failure is not over.
func (b *Builder) Failure(ctx context.Context, r Request) (why *cause.Cause, pending bool) {
	b.failures.mu.Lock()
	last := b.lastAttempt(r.Release)
	b.failures.mu.Unlock()
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
		return b.forget(r.Release)
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
	news, err := b.recordFailure(r.Release, inputs, why)
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
