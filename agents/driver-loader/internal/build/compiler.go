package build

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// Compiler returns the name and version of a compiler, such as "gcc 12.2.0". It reads them from
// /proc/version, from CONFIG_CC_VERSION_TEXT, or from the output of the compiler. It returns ""
// if the text names no compiler.
func Compiler(version string) string {
	// In /proc/version, the compiler is in the second parentheses, before the linker.
	if strings.HasPrefix(version, "Linux version ") {
		_, version, _ = strings.Cut(version, ") (")
		version, _, _ = strings.Cut(version, ", ")
	}
	family := ""
	switch {
	case strings.Contains(version, "clang"):
		family = "clang"
	case strings.Contains(version, "gcc"), strings.Contains(version, "GCC"), strings.HasPrefix(version, "cc ("):
		// The program cc of a Linux distribution is gcc, unless its text contains clang.
		family = "gcc"
	default:
		return ""
	}
	words := strings.FieldsFunc(version, func(r rune) bool { return strings.ContainsRune(" (),", r) })
	whole := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for _, word := range words {
		if whole.MatchString(word) {
			return family + " " + word
		}
	}
	if found := regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(version); found != "" {
		return family + " " + found
	}
	return ""
}

// major returns the name and the major version of a compiler: "gcc 12".
func major(compiler string) string {
	before, _, _ := strings.Cut(compiler, ".")
	return before
}

// Chosen is the compiler for a build.
type Chosen struct {
	// Program is the path of the compiler, and Version the first line that --version prints.
	Program, Version string
}

// ChooseCompiler returns the compiler for a kernel. /proc/version or Headers.Compiler describes the
// kernel's own compiler. The result has the same name and the same major version, because compiler
// options differ between major versions. Of several such compilers, one with the same version is
// preferred. Without such a compiler, the error is a Cause with the code CompilerMissing.
func ChooseCompiler(ctx context.Context, kernel string) (Chosen, error) {
	want := Compiler(kernel)
	family, version, _ := strings.Cut(want, " ")
	number, _, _ := strings.Cut(version, ".")
	own, _, _ := strings.Cut(kernel, " ")
	var near Chosen
	var seen []string
	for _, name := range []string{own, family + "-" + number, family, "cc"} {
		program, err := exec.LookPath(name)
		if err != nil || strings.ContainsAny(name, "/") {
			continue
		}
		first, err := versionOf(ctx, program)
		if err != nil {
			return Chosen{}, err
		}
		is := Compiler(first)
		if is == want {
			return Chosen{program, first}, nil
		}
		if near.Program == "" && major(is) == major(want) {
			near = Chosen{program, first}
		}
		seen = append(seen, name+" is "+cmp.Or(is, "of an unknown kind"))
	}
	if near.Program != "" {
		return near, nil
	}
	has := "no such program"
	if len(seen) > 0 {
		has = "here " + strings.Join(seen, ", ")
	}
	return Chosen{}, cause.Cause{
		Code: cause.CompilerMissing, Subject: "compiler", Text: text.Printable(fmt.Sprintf("the kernel was built with %s, %s", want, has)),
		Fix: "use the agent's image for the node's distribution, or add " + strings.Replace(major(want), " ", "-", 1) + " to the image",
	}
}

// versionOf returns the first line that a compiler prints for --version.
func versionOf(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return text.Printable(first), nil
}
