package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

const (
	// maxLine is the largest size of a file with one value, in bytes.
	maxLine = 64 << 10
	// maxList is the largest size of the list of keys, and of the list of modules, in bytes.
	maxList = 4 << 20
	// secureBoot is the EFI variable for Secure Boot. The GUID is the GUID of global variables in
	// the EFI specification.
	secureBoot = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
)

// Observe returns the running kernel. It fails only if the release cannot be read. Until the next boot,
// only Lockdown, SigEnforce and Keys can change.
func Observe(root Root) (Kernel, error) {
	release, err := readValue(root.proc("sys/kernel/osrelease"))
	if err != nil {
		return Kernel{}, fmt.Errorf("observe the kernel: %w", err)
	}
	if !filepath.IsLocal(release) || strings.Contains(release, "/") {
		return Kernel{}, fmt.Errorf("observe the kernel: %s has the release %q", root.proc("sys/kernel/osrelease"), release)
	}
	return Kernel{
		Release:    release,
		Machine:    Machine(root),
		Banner:     readValueOr(root.proc("version"), ""),
		Lockdown:   bracketed(readValueOr(root.sys("kernel/security/lockdown"), "")),
		SigEnforce: readValueOr(root.sys("module/module/parameters/sig_enforce"), "N") == "Y",
		SecureBoot: efiFlag(root.sys(secureBoot)),
		Keys:       keys(root),
		Vermagic:   vermagic(root, release),
	}, nil
}

// readValue returns the content of a file with one value.
func readValue(path string) (string, error) {
	data, err := hostfs.ReadFile(path, maxLine)
	return text.Printable(strings.TrimSpace(string(data))), err
}

func readValueOr(path, otherwise string) string {
	value, err := readValue(path)
	if err != nil {
		return otherwise
	}
	return value
}

// Machine returns the architecture of the kernel, as uname -m prints it. Kernels before 6.1 do not show it in /proc, so it
// falls back to the architecture of this program.
func Machine(root Root) string {
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le", "riscv64": "riscv64", "s390x": "s390x"}
	return readValueOr(root.proc("sys/kernel/arch"), names[runtime.GOARCH])
}

// bracketed returns the word in brackets: "none" for "[none] integrity confidentiality".
func bracketed(words string) string {
	_, rest, _ := strings.Cut(words, "[")
	word, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return word
}

// efiFlag returns an EFI variable of one byte, which follows four bytes of attributes.
func efiFlag(path string) *bool {
	data, err := hostfs.ReadFile(path, maxLine)
	if err != nil || len(data) != 5 {
		return nil
	}
	on := data[4] == 1
	return &on
}

// keys returns the public keys in /proc/keys, or nil if the kernel does not show its own keyrings to
// this process. The kernel's security/keys/proc.c defines the format.
func keys(root Root) []Key {
	data, err := hostfs.ReadFile(root.proc("keys"), maxList)
	if err != nil || !strings.Contains(string(data), " .builtin_trusted_keys: ") {
		return nil
	}
	found := []Key{}
	for row := range strings.Lines(string(data)) {
		// The type is truncated to nine letters: "asymmetri NAME: ID: X509.rsa 0a1b2c3d []".
		_, key, ok := strings.Cut(row, " asymmetri ")
		end := strings.LastIndex(key, ": X509.")
		if !ok || end < 0 {
			continue
		}
		key = key[:end]
		if split := strings.LastIndex(key, ": "); split >= 0 {
			found = append(found, Key{Name: text.Printable(key[:split]), ID: key[split+2:]})
		}
	}
	return found
}

// vermagic returns the vermagic of a module that is installed with the kernel, or "". It finds the
// module in modules.dep, with lines such as "kernel/crypto/a.ko.xz: kernel/crypto/b.ko.xz".
func vermagic(root Root, release string) string {
	f, err := hostfs.Open(root.modules(release, "modules.dep"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxList))
	for lines.Scan() {
		path, _, ok := strings.Cut(lines.Text(), ":")
		if !ok || !strings.HasPrefix(path, "kernel/") || !filepath.IsLocal(path) {
			continue
		}
		m, err := module.Read(root.modules(release, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !strings.HasPrefix(m.Vermagic, release+" ") {
			return ""
		}
		return m.Vermagic
	}
	return ""
}
