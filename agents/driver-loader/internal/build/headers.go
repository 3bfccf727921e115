package build

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// Headers describes the headers of a kernel, which builds of modules need.
type Headers struct {
	Release string
	// Build is the folder with the configuration and the symbols of the kernel, and Source the
	// folder with the rest. Most distributions use one folder for both.
	Build, Source string
	// Compiler is CONFIG_CC_VERSION_TEXT, which describes the compiler of the kernel.
	Compiler string
	// SignatureHash is CONFIG_MODULE_SIG_HASH, the hash algorithm for signatures of modules.
	SignatureHash string
	// BTF is set if modules of the kernel have type information, by CONFIG_DEBUG_INFO_BTF_MODULES.
	BTF bool
}

// Places lists the folders that can have headers of kernels.
type Places struct {
	// Root is the host's root folder, as a path of this process. Default: "/".
	Root string
	// Store is the agent's store, which has the fetched headers.
	Store string
	// Container is set if Root is not the root folder of this process, which may then link headers where
	// scripts expect them.
	Container bool
	// Mellanox is the folder of the driver container of network adapters, as a path of this process.
	// Default: run/mellanox/drivers below Root.
	Mellanox string
}

func (p Places) root() string { return cmp.Or(p.Root, "/") }

// fetched returns the folder into which the header packages of a kernel are unpacked.
func (p Places) fetched(release string) string { return filepath.Join(p.Store, "headers", release) }

// Headers returns the headers of a kernel. It prefers headers that are installed on the host to
// fetched ones. Errors are Causes with the code KernelHeadersMissing or KernelHeadersMismatch.
func (p Places) Headers(release string) (Headers, error) {
	if !filepath.IsLocal(release) || strings.Contains(release, "/") {
		return Headers{}, fmt.Errorf("%q is not a kernel release", release)
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
		Code: cause.KernelHeadersMissing, Subject: "kernel " + release, Text: "its headers were not found: they are neither in " + filepath.Join(p.root(), "lib/modules") + " nor in " + filepath.Join(p.root(), "usr/src"),
		Fix: "install the package linux-headers-" + release + " (Debian, Ubuntu) or kernel-devel-" + release + " (Red Hat, SUSE), or configure a repository that has it",
	}
}

// linked returns the target of the link build in the folder of the kernel's modules. Each header
// package installs this link.
func (p Places) linked(release string) string {
	link := filepath.Join(p.root(), "lib/modules", release, "build")
	target, err := os.Readlink(link)
	if err != nil || !filepath.IsAbs(target) {
		return ""
	}
	return target
}

// headersIn returns the headers in a folder of a root. Links cannot leave the root.
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
	// If the Makefile only includes another Makefile, the sources are in the folder of the included
	// file.
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
	h.BTF = config["CONFIG_DEBUG_INFO_BTF_MODULES"] == "y"
	return h, err
}

// check returns an error unless the headers are complete and match the kernel.
func (h Headers) check() error {
	// Modules get this release, and not the release in include/config/kernel.release.
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
				Code: cause.KernelHeadersMismatch, Subject: h.Build, Text: "the headers are not complete: " + filepath.Join(h.Source, name) + " is missing",
				Fix: "install all packages of the headers, and mount the host's /usr/src and /usr/lib into the agent's container",
			}
		}
	}
	return nil
}

// readConfig returns the values of a kernel configuration that builds need.
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
		switch key {
		case "CONFIG_CC_VERSION_TEXT", "CONFIG_MODULE_SIG_HASH", "CONFIG_DEBUG_INFO_BTF_MODULES":
			config[key] = text.Printable(strings.Trim(value, `"`))
		}
	}
	return config, lines.Err()
}
