package tools_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLinks checks that the files and headings exist to which the pages of the repository link.
func TestLinks(t *testing.T) {
	const root = "../../.."
	links := 0
	for _, page := range pages(t, root) {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, heading, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if heading != "" && !headings(prose(t, target))[heading] {
				t.Errorf("%s links to %s, and that page has no such heading", page, m[1])
			}
		}
	}
	if links < 300 {
		t.Errorf("there are %d links", links)
	}
}

// pages returns the Markdown files below root that are no links and no build results.
func pages(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "out" || name == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(path, ".md"):
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(text), "")
}

// headings returns the anchors of a page, as GitHub makes them.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name = regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(name), "")
		anchor := strings.ReplaceAll(strings.TrimSpace(name), " ", "-")
		for i := 1; anchors[anchor]; i++ {
			anchor = strings.TrimSuffix(anchor, "-"+strconv.Itoa(i-1)) + "-" + strconv.Itoa(i)
		}
		anchors[anchor] = true
	}
	return anchors
}
