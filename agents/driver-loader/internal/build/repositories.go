package build

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

// Repositories fetches header packages with the package manager of the agent's image. It uses the
// repositories of the image and of driver.repoConfig. It does not install packages, but unpacks
// them in the store.
type Repositories struct {
	// Etc is the folder with the configuration, "/etc" by default. apt reads Etc/apt, and dnf reads
	// Etc/yum.repos.d.
	Etc string
	// Timeout is how long to wait for an answer of a repository. Default: 30 s.
	Timeout time.Duration
	// Certificates lists folders with additional certificates, as PEM files. Default: the folders of
	// Debian and Red Hat, /usr/local/share/ca-certificates and /etc/pki/ca-trust/source/anchors.
	Certificates []string
	// Manager is the package manager: "apt" or "dnf". Default: the installed one.
	Manager string
}

func (r *Repositories) etc() string { return cmp.Or(r.Etc, "/etc") }

func (r *Repositories) seconds() string {
	if r.Timeout == 0 {
		return "30"
	}
	return strconv.Itoa(max(1, int(r.Timeout.Seconds())))
}

// Fetch unpacks the headers of a kernel. The parameter to is the path of the new folder. After an
// error, this folder does not exist. Errors are Causes with the code RepositoryUnavailable,
// KernelHeadersMissing or BuildToolsMissing.
func (r *Repositories) Fetch(ctx context.Context, release, to string) error {
	stage, err := staging.New(filepath.Dir(to))
	if err != nil {
		return err
	}
	err = r.fill(ctx, release, stage.Dir)
	if err == nil {
		_, err = stage.Commit(filepath.Base(to))
	}
	return errors.Join(err, stage.Close())
}

// fill unpacks the packages below dir. It keeps the files of the package manager in a subfolder,
// and removes the subfolder at the end.
func (r *Repositories) fill(ctx context.Context, release, dir string) error {
	work := filepath.Join(dir, "packages")
	if err := os.Mkdir(work, 0o755); err != nil { //nolint:gosec // apt reads the folder as another user
		return staging.Explain(dir, err)
	}
	trusted, err := r.certificates(work)
	if err != nil {
		return err
	}
	var unpack func(context.Context, string, string) error
	switch r.Program() {
	case "apt":
		unpack, err = unpackDeb, apt{r, work, trusted}.download(ctx, release)
	case "dnf":
		unpack, err = unpackRPM, dnf{r, work, trusted}.download(ctx, release)
	default:
		return noTool("apt-get or dnf", exec.ErrNotFound)
	}
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.[dr][ep][bm]"))
	if err != nil {
		return err
	}
	for _, p := range packages {
		if err := unpack(ctx, p, dir); err != nil {
			return unavailable(err)
		}
	}
	return os.RemoveAll(work)
}

// Program returns the package manager that fetches headers: "apt", "dnf", or "" without one.
func (r *Repositories) Program() string {
	if r.Manager != "" {
		return r.Manager
	}
	if _, err := exec.LookPath("apt-get"); err == nil {
		return "apt"
	}
	if _, err := exec.LookPath("dnf"); err == nil {
		return "dnf"
	}
	return ""
}

func unpackDeb(ctx context.Context, path, to string) error {
	return tool(ctx, "dpkg-deb", "--extract", path, to)
}

// unpackRPM unpacks a package with rpm2cpio and cpio, which images with rpm have.
func unpackRPM(ctx context.Context, path, to string) error {
	from, err := command(ctx, "", "rpm2cpio", path)
	if err != nil {
		return err
	}
	into, err := command(ctx, to, "cpio", "--extract", "--make-directories", "--no-absolute-filenames", "--preserve-modification-time", "--quiet")
	if err != nil {
		return err
	}
	var errs strings.Builder
	into.Stderr = &limitedWriter{w: &errs, left: maxOutput}
	if into.Stdin, err = from.StdoutPipe(); err != nil {
		return err
	}
	if err := from.Start(); err != nil {
		return err
	}
	err = into.Run()
	if err != nil {
		err = &toolError{name: "cpio", err: err, output: errs.String()}
	}
	return errors.Join(err, from.Wait())
}

// unavailable returns the cause of an error of a package manager. It recognizes a full disk by the
// text of the error.
func unavailable(err error) error {
	var failed *toolError
	if !errors.As(err, &failed) {
		return err
	}
	// "Wrote only" is a text of tar.
	for _, words := range []string{"No space left on device", "have enough free space", "Wrote only "} {
		if strings.Contains(failed.output, words) {
			return cause.New(cause.NoSpace, "packages of headers", "the disk is full: "+failed.Error())
		}
	}
	return cause.New(cause.RepositoryUnavailable, "package repositories", failed.Error())
}

func noPackage(name string) error {
	return cause.Cause{
		Code: cause.KernelHeadersMissing, Subject: name, Text: "no configured repository has the package",
		Fix: "add it to a repository of driver.repoConfig, or install it on the node",
	}
}
