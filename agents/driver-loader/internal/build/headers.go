package build

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// Headers is the folder of a kernel's headers, with which modules for it are built.
type Headers struct {
	Release string
	// Build has the configuration and the symbols of the kernel, Source the rest. Most
	// distributions have them in one folder.
	Build, Source string
	// Compiler is the compiler of the kernel, in its own words (CONFIG_CC_VERSION_TEXT).
	Compiler string
	// SignatureHash is the hash for signatures of modules (CONFIG_MODULE_SIG_HASH).
	SignatureHash string
}

// Places says where headers of kernels can be.
type Places struct {
	// Root is where this process sees the host's root folder, "/" by default.
	Root string
	// Modules is where it sees the host's /lib/modules, by default below Root.
	Modules string
	// Store is the agent's store, with the headers that were fetched.
	Store string
}

func (p Places) modules() string {
	if p.Modules != "" {
		return p.Modules
	}
	return filepath.Join(p.root(), "lib/modules")
}

func (p Places) root() string {
	if p.Root == "" {
		return "/"
	}
	return p.Root
}

// fetched is the folder into which the packages of a kernel's headers are unpacked.
func (p Places) fetched(release string) string { return filepath.Join(p.Store, "headers", release) }

// RemoveFetched removes the headers that were fetched, but not those of the kernels to keep,
// and returns the folders.
func (p Places) RemoveFetched(keep []string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(p.fetched("x")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, e := range entries {
		if staging.Complete(e.Name()) && !slices.Contains(keep, e.Name()) {
			errs = append(errs, staging.Remove(p.fetched(e.Name())))
			removed = append(removed, p.fetched(e.Name()))
		}
	}
	return removed, errors.Join(errs...)
}

// Headers finds the headers of a kernel: those that are installed on the host, then those
// that were fetched. The error is a Cause with the code NoHeaders or OtherHeaders.
func (p Places) Headers(release string) (Headers, error) {
	if !filepath.IsLocal(release) || strings.Contains(release, "/") {
		return Headers{}, fmt.Errorf("%q is no release of a kernel", release)
	}
	type place struct{ root, path string }
	places := []place{
		{p.root(), p.linked(release)},
		{p.root(), "usr/src/linux-headers-" + release},
		{p.root(), "usr/src/kernels/" + release},
		{p.fetched(release), "usr/src/linux-headers-" + release},
		{p.fetched(release), "usr/src/kernels/" + release},
	}
	var found error
	for _, place := range places {
		if place.path == "" {
			continue
		}
		h, err := headersIn(place.root, place.path, release)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && found == nil {
			found = err
		}
	}
	if found != nil {
		return Headers{}, found
	}
	return Headers{}, cause.Cause{
		Code: cause.KernelHeadersMissing, Subject: "kernel " + release, Text: "its headers are neither in " + p.modules() + " nor in " + filepath.Join(p.root(), "usr/src"),
		Fix: "install the package linux-headers-" + release + " (Debian, Ubuntu) or kernel-devel-" + release + " (Red Hat, SUSE), or configure a repository that has it",
	}
}

// linked returns where the link of the modules' folder leads, which each package of
// headers has.
func (p Places) linked(release string) string {
	link := filepath.Join(p.modules(), release, "build")
	target, err := os.Readlink(link)
	if err != nil || !filepath.IsAbs(target) {
		return ""
	}
	return target
}

// headersIn returns the headers in a folder of a root. Links lead nowhere out of the root.
func headersIn(root, path, release string) (Headers, error) {
	dir, err := securejoin.SecureJoin(root, path)
	if err != nil {
		return Headers{}, err
	}
	makefile, err := hostfs.ReadFile(filepath.Join(dir, "Makefile"), 1<<20)
	if err != nil {
		return Headers{}, err
	}
	h := Headers{Release: release, Build: dir, Source: dir}
	// The sources are elsewhere if the Makefile only includes another one.
	if found := regexp.MustCompile(`(?m)^include (/\S+)/Makefile$`).FindSubmatch(makefile); found != nil {
		if h.Source, err = securejoin.SecureJoin(root, string(found[1])); err != nil {
			return Headers{}, err
		}
	}
	if err := h.check(); err != nil {
		return Headers{}, err
	}
	config, err := readConfig(filepath.Join(dir, ".config"))
	if errors.Is(err, fs.ErrNotExist) {
		config, err = readConfig(filepath.Join(dir, "include/config/auto.conf"))
	}
	h.Compiler, h.SignatureHash = config["CONFIG_CC_VERSION_TEXT"], config["CONFIG_MODULE_SIG_HASH"]
	return h, err
}

// check reports whether the headers are whole, and of the kernel.
func (h Headers) check() error {
	// This one is in the modules, in contrast to include/config/kernel.release.
	generated, err := hostfs.ReadFile(filepath.Join(h.Build, "include/generated/utsrelease.h"), 4096)
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`UTS_RELEASE "([^"]+)"`).FindSubmatch(generated)
	if found == nil || string(found[1]) != h.Release {
		return cause.Cause{
			Code: cause.KernelHeadersMismatch, Subject: h.Build, Text: text.Printable(fmt.Sprintf("the headers are not of the kernel %s: %s", h.Release, strings.TrimSpace(string(generated)))),
			Fix: "install the headers of " + h.Release,
		}
	}
	for _, name := range []string{"Makefile", "scripts/Makefile.build", "include/linux/module.h"} {
		if _, err := os.Stat(filepath.Join(h.Source, name)); err != nil {
			return cause.Cause{
				Code: cause.KernelHeadersMismatch, Subject: h.Build, Text: "the headers are not whole: " + filepath.Join(h.Source, name) + " is not there",
				Fix: "install all packages of the headers, and mount the host's /usr/src and /usr/lib for the agent",
			}
		}
	}
	return nil
}

// readConfig returns the text values of a kernel's configuration that builds need.
func readConfig(path string) (map[string]string, error) {
	f, err := hostfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	config := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if key == "CONFIG_CC_VERSION_TEXT" || key == "CONFIG_MODULE_SIG_HASH" {
			config[key] = text.Printable(strings.Trim(value, `"`))
		}
	}
	return config, lines.Err()
}
