package footprint

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const sample = `00400000-00410000 r--p 00000000 fe:00 281 /usr/bin/agent
Size:                 64 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
00410000-00a38000 r-xp 00010000 fe:00 281 /usr/bin/agent
Anonymous:             0 kB
01137000-01138000 r--p 00d37000 fe:00 281 /usr/bin/agent
Anonymous:             4 kB
01138000-011ac000 rw-p 00d38000 fe:00 281 /usr/bin/agent
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:          2868 kB
7f0000000000-7f0000001000 r--s 00000000 fe:00 300 /shared file
Anonymous:             0 kB
7f0000002000-7f0000003000 r--p 00000000 fe:00 300 /with a space
Anonymous:             0 kB
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`

func TestCleanKeepsToUnmodifiedReadOnlyFiles(t *testing.T) {
	got, err := clean(strings.NewReader(sample))
	want := []mapping{{0x400000, 0x410000}, {0x410000, 0xa38000}, {0x7f0000002000, 0x7f0000003000}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("clean() = %x, %v; want %x", got, err, want)
	}
}

func TestCleanRejectsAnotherFormat(t *testing.T) {
	for _, text := range []string{"hello\n", "x-y r-xp 0 0 0 /file\n"} {
		if got, err := clean(strings.NewReader(text)); err == nil {
			t.Errorf("clean(%q) = %v, want an error", text, got)
		}
	}
}

func TestTrimUnmapsTheProgram(t *testing.T) {
	before := fileKiB(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := fileKiB(t); after >= before {
		t.Errorf("%d KiB of files are resident after Trim, %d before", after, before)
	}
}

// fileKiB returns how much of files is resident.
func fileKiB(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(data, []byte("RssFile:"))
	kib, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
