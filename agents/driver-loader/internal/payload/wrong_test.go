package payload_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

func TestWhatIsNoDriverForThisNodeIsNamed(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	arm := payloadtest.Driver{Version: version, Machine: elf.EM_AARCH64}
	content := payloadtest.Compress(t, "gzip", payloadtest.Tar(t, driver.Folder(t)))
	archive := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "driver.run")
		payloadtest.Write(t, path, string(data), 0o755)
		return path
	}
	good := payloadtest.Run(version, "x86_64", content)
	without := func(name string) string {
		dir := driver.Folder(t)
		assert.NilError(t, os.Remove(filepath.Join(dir, name)))
		return dir
	}
	for name, test := range map[string]struct {
		from string
		want cause.Code
		says string
	}{
		"a path without anything":              {filepath.Join(t.TempDir(), "x"), cause.PayloadMissing, "does not exist"},
		"an empty folder":                      {t.TempDir(), cause.PayloadMissing, "has no driver"},
		"an empty file":                        {archive(nil), cause.PayloadCorrupt, "is not a .run archive"},
		"a file that is no script":             {archive([]byte("\x7fELF\n")), cause.PayloadCorrupt, "is not a .run archive"},
		"a script that is no archive":          {archive([]byte("#!/bin/sh\nexit\n")), cause.PayloadCorrupt, "is not a .run archive"},
		"content before its script":            {archive([]byte("#!/bin/sh\nskip=-5\nTARGET_OS=Linux\n")), cause.PayloadCorrupt, "at the line -5"},
		"content in its script":                {archive([]byte("#!/bin/sh\n\nskip=2\nTARGET_OS=Linux\n")), cause.PayloadCorrupt, "at the line 2"},
		"an archive for another processor":     {archive(payloadtest.Run(version, "aarch64", content)), cause.WrongArchitecture, "Linux-aarch64; this node is Linux-x86_64"},
		"libraries for another processor":      {arm.Folder(t), cause.WrongArchitecture, "for another processor"},
		"an archive cut off in its script":     {archive(good[:120]), cause.PayloadTruncated, "ends"},
		"an archive cut off in its content":    {archive(good[:len(good)-200]), cause.PayloadTruncated, "is truncated"},
		"an archive with a changed byte":       {archive(append(slices.Clone(good[:len(good)-1]), good[len(good)-1]^1)), cause.PayloadCorrupt, ""},
		"an archive with bytes at the end":     {archive(append(slices.Clone(good), 0)), cause.PayloadTruncated, ""},
		"an archive of something else":         {archive(payloadtest.Run(version, "x86_64", payloadtest.Compress(t, "xz", payloadtest.Tar(t, t.TempDir())))), cause.PayloadCorrupt, "no file .manifest"},
		"content that is not compressed right": {archive(payloadtest.Run(version, "x86_64", []byte("\xfd7zXZ\x00"+strings.Repeat("no xz ", 500)))), cause.PayloadCorrupt, "cannot be decompressed"},
		"a folder without a library":           {without("libcuda.so." + version), cause.PayloadTruncated, "lacks the file"},
		"a folder without firmware":            {without("firmware/gsp_ga10x.bin"), cause.PayloadTruncated, "gsp_ga10x.bin"},
	} {
		s := newStore(t)
		_, err := s.Import(t.Context(), test.from)
		if code(err) != test.want || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		empty(t, s)
	}
}

// empty checks that the store is as if nothing had been imported.
func empty(t *testing.T, s payload.Store) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir + "/drivers")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			t.Errorf("left %s", e.Name())
		}
	}
}
