package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNothingIsBuiltAgain changes one after the other of what a program depends on.
func TestNothingIsBuiltAgain(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"go.work":       "go 1.26\n\nuse (\n\t./hello\n)\n",
		"hello/go.mod":  "module outrigger.dev/hello\n\ngo 1.26\n",
		"hello/main.go": "package main\n\nfunc main() { println(\"one\") }\n",
	}, "build.sh", "stamp.sh", "compile.env", "modules.sh")
	build := func(env []string, folders ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(c.root, "tools/build.sh"), folders...)
		cmd.Env = append(without(os.Environ(), "VERSION", "BIN"), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tools/build.sh: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const built, fresh = "bin/hello", "bin: up to date"
	for _, step := range []struct {
		after  string
		change func()
		env    []string
		of     []string
		want   string
	}{
		{after: "the first time", want: built},
		{after: "nothing has changed", want: fresh},
		{after: "another version is wanted", env: []string{"VERSION=2"}, want: built},
		{after: "the first version is wanted again", want: built},
		{after: "a source has changed", change: func() {
			c.write("hello/main.go", "package main\n\nfunc main() { println(\"two\") }\n")
		}, want: built},
		{after: "a test has changed", change: func() { c.write("hello/main_test.go", "package main\n") }, want: fresh},
		{after: "a source was added", change: func() { c.write("hello/other.go", "package main\n") }, want: built},
		{after: "somebody has written the program", change: func() {
			if err := os.Chtimes(filepath.Join(c.root, "bin/hello"), time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}, want: built},
		{after: "the program was removed", change: func() {
			if err := os.Remove(filepath.Join(c.root, "bin/hello")); err != nil {
				t.Fatal(err)
			}
		}, want: built},
		{after: "the same program is wanted by its name", of: []string{"hello"}, want: built},
		{after: "all programs are wanted again", want: fresh},
	} {
		if step.change != nil {
			step.change()
		}
		if got := build(step.env, step.of...); got != step.want {
			t.Errorf("after %s it prints %q, want %q", step.after, got, step.want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(c.root, "bin/hello")).CombinedOutput(); err != nil || string(out) != "two\n" {
		t.Errorf("the program prints %q (error %v)", out, err)
	}
}

// TestAModuleThatCannotBeReadIsNotLeftOut has one more that can be.
func TestAModuleThatCannotBeReadIsNotLeftOut(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"go.work":       "go 1.26\n\nuse (\n\t./broken\n\t./hello\n)\n",
		"broken/go.mod": "module\n",
		"hello/go.mod":  "module outrigger.dev/hello\n\ngo 1.26\n",
		"hello/main.go": "package main\n\nfunc main() {}\n",
	}, "build.sh", "stamp.sh", "compile.env", "modules.sh")
	if out, err := c.run(nil, "build.sh"); err == nil || !strings.Contains(out, "go.mod:1") {
		t.Errorf("it succeeds, or does not say why it failed: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.root, "out/stamps")); err == nil {
		t.Error("the next time it would build nothing")
	}
}

// TestNoImageIsWrittenAgain has a program that writes images which logs that it was run.
func TestNoImageIsWrittenAgain(t *testing.T) {
	const dockerfile = "FROM scratch AS image\nFROM image AS hello\nCOPY --from=build /out/hello /hello\n"
	c := newCheckout(t, map[string]string{
		"images/Dockerfile": dockerfile,
		"bin/hello":         "hello\n",
		"bin/images":        "#!/bin/sh\nmkdir -p out/images && shift && for name; do echo \"$VERSION\" >out/images/$name.tar && echo wrote $name; done\n",
	}, "images.sh", "stamp.sh")
	write := func(version string, components ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(c.root, "tools/images.sh"), components...)
		cmd.Env = append(without(os.Environ(), "IMAGES_BIN", "IMAGES_OUT"), "VERSION="+version)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tools/images.sh: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const written, fresh = "wrote hello", "out/images: up to date"
	for _, step := range []struct {
		after   string
		change  func()
		version string
		want    string
	}{
		{after: "the first time", want: written},
		{after: "nothing has changed", want: fresh},
		{after: "the Dockerfile has changed", change: func() { c.write("images/Dockerfile", dockerfile+"USER 1\n") }, want: written},
		{after: "a program has changed", change: func() { c.write("bin/hello", "hallo\n") }, want: written},
		{after: "a program of no image has changed", change: func() { c.write("bin/gotestsum", "newer\n") }, want: fresh},
		{after: "what writes images has changed", change: func() { c.write("bin/images", c.read("bin/images")+"# newer\n") }, want: written},
		{after: "another version is wanted", version: "2", want: written},
		{after: "the first version is wanted again", want: written},
		{after: "the archive was replaced", change: func() { c.write("out/images/hello.tar", "another one\n") }, want: written},
		{after: "all of that", want: fresh},
	} {
		if step.change != nil {
			step.change()
		}
		if got := write("1" + step.version); got != step.want {
			t.Errorf("after %s it prints %q, want %q", step.after, got, step.want)
		}
	}
	if got := write("1", "hello"); got != fresh {
		t.Errorf("asked for the only component it prints %q, want %q", got, fresh)
	}
}
