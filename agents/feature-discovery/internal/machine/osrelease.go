package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"

	"outrigger.dev/pkg/hostfs"
)

// readOSRelease returns the content of os-release(5): the file in /etc if it exists, otherwise
// the file in /usr/lib. Both may be links. Links are resolved below root, because the container
// has files with the same names.
func readOSRelease(root string) (string, error) {
	var errs []error
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		path, err := securejoin.SecureJoin(root, name)
		if err != nil {
			return "", fmt.Errorf("find os-release below %s: %w", root, err)
		}
		data, err := hostfs.ReadFile(path, maxFile)
		if err == nil {
			return string(data), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read os-release: %w", err)
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("read os-release: %w: mount the node's file below %s", errors.Join(errs...), root)
}

// parseOSRelease returns the variables of os-release(5). It ignores all other
// lines.
func parseOSRelease(data string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(data) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || !isName(name) {
			continue
		}
		if v, ok := unquote(value); ok {
			values[name] = v
		}
	}
	return values
}

// isName reports whether s is a valid variable name.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// unquote removes shell quotes from a value. In single quotes, every character is literal. In
// double quotes, a backslash escapes only special characters. unquote returns false if a quote is
// not closed.
func unquote(s string) (string, bool) {
	const special = "\"\\$`"
	var quote byte
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		quote, s = s[0], s[1:]
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == quote:
			return out.String(), true
		case quote == 0 && (c == ' ' || c == '\t'):
			return out.String(), true // a comment may follow
		case c == '\\' && quote != '\'' && i+1 < len(s) && (quote == 0 || strings.IndexByte(special, s[i+1]) >= 0):
			i++
			out.WriteByte(s[i])
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), quote == 0
}
