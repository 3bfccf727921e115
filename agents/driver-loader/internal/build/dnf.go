package build

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
)

// dnf downloads packages with dnf, with all its state in a folder.
type dnf struct {
	*Repositories
	work string
	// trusted is a file of certificates, "" for those of the image.
	trusted string
}

// download downloads the headers of a kernel, which are one package.
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
