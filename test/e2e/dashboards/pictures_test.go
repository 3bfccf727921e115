package dashboards_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/e2e/dashboards"
)

// picturesDir is where the test puts pictures of the dashboards, if it is set.
const picturesDir = "DASHBOARD_PICTURES"

// pictures writes pictures of the dashboards with what they show after minutes of load.
func pictures(t *testing.T, all []*node, server dashboards.Prometheus, w dashboards.Window) {
	t.Helper()
	dir := os.Getenv(picturesDir)
	if dir == "" {
		return
	}
	const length = 5 * time.Minute
	for time.Since(w.From) < length && pace.Pause(t.Context(), time.Second) {
		load(t, all, time.Since(w.From))
		if err := all[int(time.Since(w.From).Seconds())/40%2].allocate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.To, w.Step = time.Now(), 2*time.Second
	w.From = w.To.Add(-length)
	for _, d := range rendered(t, "dashboards.enabled=true") {
		answers, err := server.Ask(t.Context(), d, dashboards.Values{"node": "gpu-1", "namespace": "research"}, w)
		if err != nil {
			t.Error(err)
		}
		page, err := dashboards.Draw(d, answers, w)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(d.UID, "outrigger-gpus-")
		picture(t, page, d.Height(), filepath.Join(dir, "dashboard-"+name+".png"))
	}
}

// picture writes a picture of a page.
func picture(t *testing.T, page string, height int, file string) {
	t.Helper()
	dir := t.TempDir()
	html, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if err := os.WriteFile(html, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+dir,
		fmt.Sprintf("--window-size=%d,%d", dashboards.Width, height), "--screenshot="+shot, html)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("chromium: %v: install it with apt-get install chromium fonts-dejavu-core\n%s", err, out)
	}
	data, err := os.ReadFile(shot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, small(t, data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// most is the greatest size of a picture, in bytes.
const most = 150_000

// small returns a PNG in the colors that it has most of: 256, or fewer for a large one.
func small(t *testing.T, data []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	for n := min(256, len(colors)); ; n /= 2 {
		var out bytes.Buffer
		reduced := image.NewPaletted(full.Bounds(), colors[:n])
		draw.Draw(reduced, full.Bounds(), full, image.Point{}, draw.Src)
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduced); err != nil {
			t.Fatal(err)
		}
		if out.Len() <= most || n < 32 {
			return out.Bytes()
		}
	}
}
