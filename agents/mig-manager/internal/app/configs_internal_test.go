package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/hostfs"
)

// TestABrokenFileFailsItsOwnConfigsOnly: generated ones, and those of the other file, can be asked for.
func TestABrokenFileFailsItsOwnConfigsOnly(t *testing.T) {
	const valid = "version: v1\nmig-configs:\n  team: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	broken := strings.Replace(valid, "mig-enabled: true", "mig-enabled: perhaps", 1)
	for name, tc := range map[string]struct {
		user, base, asks string
		// want are words of the error, none for no error.
		want []string
	}{
		"of the file":                     {user: broken, asks: "team", want: []string{"user.yaml:3", "mig-enabled", "true or false"}},
		"generated":                       {user: broken, asks: "all-balanced"},
		"of the other file":               {user: broken, base: strings.ReplaceAll(valid, "team", "other"), asks: "other"},
		"of neither":                      {user: broken, asks: "nonsense", want: []string{"does not exist", "all-balanced", "user.yaml:3"}},
		"generated, and replaced":         {user: strings.ReplaceAll(broken, "team", "all-balanced"), asks: "all-balanced", want: []string{"user.yaml:3"}},
		"replaced in a file of one line":  {user: `{version: v1, mig-configs: {"all-balanced": [}`, asks: "all-balanced", want: []string{"user.yaml"}},
		"replaced in a file of no syntax": {user: "version: v1\nmig-configs:\n\tall-balanced:\n", asks: "all-balanced", want: []string{"user.yaml:3"}},
		"a file of no syntax":             {user: "version: v1\nmig-configs:\n\tteam:\n", asks: "all-balanced"},
		"a longer name":                   {user: strings.ReplaceAll(broken, "team", "not-all-balanced"), asks: "all-balanced"},
		"of the base":                     {base: broken, asks: "team", want: []string{"base.yaml:3"}},
		"generated, and in the base":      {base: strings.ReplaceAll(broken, "team", "all-balanced"), asks: "all-balanced"},
	} {
		t.Run(name, func(t *testing.T) {
			paths := map[string]string{}
			for file, text := range map[string]string{"user": tc.user, "base": tc.base} {
				if text == "" {
					continue
				}
				paths[file] = filepath.Join(t.TempDir(), file+".yaml")
				if err := os.WriteFile(paths[file], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			f := newConfigs(paths["base"], paths["user"], slog.New(slog.NewTextHandler(&log, nil)))
			wish, err := f.selected(tc.asks, board(t, 1))
			if (err == nil) != (len(tc.want) == 0) || (wish == nil) != (err != nil) {
				t.Fatalf("selected() = %v, %v, want an error with %q", wish, err, tc.want)
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error %q lacks %q", err, word)
				}
			}
			_, _ = f.selected(tc.asks, board(t, 1))
			if n := strings.Count(log.String(), "config file rejected"); n != 1 {
				t.Errorf("%d lines of log, want one:\n%s", n, &log)
			}
		})
	}
}

// TestAFileThatGoesFailsItsConfigs: what it replaced must not be applied instead.
func TestAFileThatGoesFailsItsConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "version: v1\nmig-configs:\n  all-balanced: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	if err := hostfs.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newConfigs("", file, slog.New(slog.DiscardHandler))
	if _, err := f.selected("all-balanced", board(t, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := f.selected("all-balanced", board(t, 1)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("selected() = %v, want an error about %s", err, file)
	}
	if _, err := f.selected("all-disabled", board(t, 1)); err != nil {
		t.Errorf("a generated config fails: %v", err)
	}
}
