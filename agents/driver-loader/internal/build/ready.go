package build

import "context"

// CompilerFor returns the version of the compiler that would build modules for a kernel: the
// text is /proc/version, or Headers.Compiler. The error is a Cause with the code NoCompiler
// if there is none that fits.
func CompilerFor(ctx context.Context, kernel string) (string, error) {
	c, err := chooseCompiler(ctx, kernel)
	return c.version, err
}

// Program returns the package manager that would fetch headers: "apt", "dnf", or "" if
// there is none. It does not ask whether a repository answers.
func (r *Repositories) Program() string {
	if r == nil {
		return ""
	}
	return r.manager()
}
