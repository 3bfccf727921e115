package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is a small repository with some of our scripts.
type checkout struct {
	t    *testing.T
	root string
}

// newCheckout commits files, by their path, and scripts of the folder tools.
func newCheckout(t *testing.T, files map[string]string, scripts ...string) checkout {
	t.Helper()
	c := checkout{t: t, root: t.TempDir()}
	for _, name := range scripts {
		script, err := os.ReadFile(filepath.Join(repository(t), "tools", name))
		if err != nil {
			t.Fatal(err)
		}
		c.write("tools/"+name, string(script))
	}
	for path, text := range files {
		c.write(path, text)
	}
	c.git("init", "-q")
	c.commit()
	return c
}

// write writes a file that everyone may run.
func (c checkout) write(path, text string) {
	c.t.Helper()
	path = filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // some are scripts
		c.t.Fatal(err)
	}
}

func (c checkout) read(path string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.root, path))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

func (c checkout) git(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (c checkout) commit() {
	c.t.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "all")
}

// run runs a script with more variables, and returns what it prints.
func (c checkout) run(env []string, script string, args ...string) (string, error) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.root, "tools", script), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
