package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// The files in a folder with the parts of modules.
const (
	linkDigests = "SHA256SUMS"
	// maxLinked is the largest size of a linked module, in bytes.
	maxLinked = 1 << 30
)

// join links the proprietary modules in Ubuntu's packages, which have their parts. The script BUILD links them in its
// folder. Ubuntu has signed the linked modules, so that their content must have the digests of the package. join returns
// the modules, with their signatures, in the folder to.
func join(ctx context.Context, parts, to string) ([]string, error) {
	if err := os.CopyFS(to, os.DirFS(parts)); err != nil {
		return nil, staging.Explain(to, err)
	}
	// With -e, the script ends when a linker fails, and leaves no unfinished module, whose digest would be wrong.
	_, err := output(ctx, to, "sh", "-e", "./"+payload.LinkName)
	if failed, is := errors.AsType[*toolError](err); is {
		why := explain(cause.Cause{
			Code: cause.BuildToolsMissing, Subject: parts, Text: failed.Error(),
			Fix: "use an image that has ld (the package binutils), or the open modules",
		}, strings.Split(failed.output, "\n"), failed.err)
		why.Text = "its script " + payload.LinkName + " does not link the modules: " + text.Printable(why.Text)
		return nil, why
	}
	if err != nil {
		return nil, err
	}
	err = checkDigests(to)
	if _, is := errors.AsType[*fs.PathError](err); is && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // the disk failed, and not the linker
	}
	if err != nil {
		return nil, cause.Cause{
			Code: cause.ModuleBuildFailed, Subject: parts, Text: "a linked module differs from the signed module: " + err.Error(),
			Fix: "use NVIDIA's driver image for the node's distribution, which has the linker of the signed modules; the agent tries again when the driver changes, or after SIGHUP",
		}
	}
	modules, err := filepath.Glob(filepath.Join(to, "*.ko"))
	if err != nil {
		return nil, err
	}
	for _, file := range modules {
		if err := appendSignature(file); err != nil {
			return nil, staging.Explain(file, err)
		}
	}
	return modules, nil
}

// checkDigests compares the files in a folder with their digests.
func checkDigests(dir string) error {
	list, err := hostfs.ReadFile(filepath.Join(dir, linkDigests), 1<<20)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimLeft(name, " *")
		if want == "" {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%s has the path %q", linkDigests, name)
		}
		data, err := hostfs.ReadFile(filepath.Join(dir, name), maxLinked)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			return fmt.Errorf("%s has another digest", name)
		}
	}
	return nil
}

// appendSignature appends the signature of a module, if the package has one.
func appendSignature(file string) error {
	signature, err := os.ReadFile(file + ".sig")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(signature)
	return errors.Join(err, f.Close())
}
