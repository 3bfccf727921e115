package build

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
)

// dnf downloads packages with dnf. It keeps all state of dnf in the folder work.
type dnf struct {
	*Repositories
	work string
	// trusted is a file with certificates. If empty, dnf trusts the certificates of the image.
	trusted string
}

// download downloads the package with the headers of a kernel.
func (d dnf) download(ctx context.Context, release string) error {
	name := "kernel-devel-" + release
	args := []string{
		"--assumeyes", "--disableplugin=local",
		"--setopt=reposdir=" + filepath.Join(d.etc(), "yum.repos.d"),
		"--setopt=cachedir=" + filepath.Join(d.work, "cache"), "--setopt=logdir=" + d.work, "--setopt=persistdir=" + d.work,
		"--setopt=timeout=" + d.seconds(), "--setopt=retries=1", "--setopt=skip_if_unavailable=False",
	}
	if d.trusted != "" {
		args = append(args, "--setopt=sslcacert="+d.trusted)
	}
	_, err := output(ctx, d.work, "dnf", append(args, "download", "--destdir", d.work, name)...)
	var failed *toolError
	if errors.As(err, &failed) && strings.Contains(failed.output, "No package "+name+" available") {
		return noPackage(name)
	}
	return unavailable(err)
}
