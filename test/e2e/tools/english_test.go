package tools_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unclear has constructions that usually need a second reading, and what to write instead. They are
// places to look at: some sentences with them read well.
var unclear = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(that|those) (of|in|on|at|for|with|from|before|after|below|above)\b`), "repeat the noun"},
	{regexp.MustCompile(`\b[Ww]hat (is|was|are|were|has|had|it|they|this|an?|the|each|should|can|may|needs?|comes?|left|changed|went)\b`), "use a noun"},
	{regexp.MustCompile(`\b(in|of|for|to|by|on|at|with|from) (which|whom)\b`), "write two sentences"},
	{regexp.MustCompile(`\bthe one (that|which|of|with|in|on)\b`), "name it"},
	{regexp.MustCompile(`\bof (its|their) own\b`), "its own NOUN, private or separate"},
	{regexp.MustCompile(`\b(none|nobody|nothing) (of|else|that|is|has)\b`), "use not"},
	{regexp.MustCompile(`\bthere (is|are|was) (no|none)\b.*\b(that|which)\b`), "use cannot, or without"},
	{regexp.MustCompile(`\b(besides|hereof|thereof|wherein)\b`), "use a common word"},
}

// most is the largest share of lines with such a construction, in percent.
const most = 1

// TestPlainEnglish reads the comments of all programs, and all pages.
func TestPlainEnglish(t *testing.T) {
	const root = "../../.."
	t.Run("comments", func(t *testing.T) { readable(t, goComments(t, root)) })
	t.Run("pages", func(t *testing.T) {
		var lines []string
		for _, page := range pages(t, root) {
			if filepath.Base(page) == "CHANGELOG.md" {
				continue
			}
			lines = append(lines, numbered(page, prose(t, page))...)
		}
		readable(t, lines)
	})
}

// readable counts the lines that need a second reading.
func readable(t *testing.T, lines []string) {
	t.Helper()
	var hits []string
	for _, line := range lines {
		for _, u := range unclear {
			if u.pattern.MatchString(line) {
				hits = append(hits, line+"  ("+u.instead+")")
				break
			}
		}
	}
	if len(lines) < 3000 {
		t.Fatalf("there are only %d lines", len(lines))
	}
	if len(hits)*100 > len(lines)*most {
		t.Errorf("%d of %d lines need a second reading, more than %d %%:\n%s", len(hits), len(lines), most, strings.Join(hits, "\n"))
	}
}

// goComments returns the comments of the Go files below root that are no tests and not generated.
func goComments(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "out" || name == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_generated.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range numbered(path, string(text)) {
			_, comment, is := strings.Cut(line, ": //")
			if is && !strings.HasPrefix(comment, "go:") && !strings.HasPrefix(comment, "nolint") && !strings.HasPrefix(comment, "export") {
				lines = append(lines, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// numbered returns the lines of a file that are not empty, with their place.
func numbered(file, text string) []string {
	var lines []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, fmt.Sprintf("%s:%d: %s", file, number, line))
		}
	}
	return lines
}
