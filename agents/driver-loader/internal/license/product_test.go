package license_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/driver-loader/internal/license"
)

// output is what nvidia-smi -q prints of GPUs with this text after their license's title.
func output(gpus ...string) string {
	var b strings.Builder
	b.WriteString("\n==============NVSMI LOG==============\n\nDriver Version                            : 580.95.05\n\nAttached GPUs                             : 2\n")
	for i, status := range gpus {
		b.WriteString("GPU 00000000:0" + string(rune('2'+i)) + ":01.0\n    Product Name                          : NVIDIA H100-80C\n" +
			"    vGPU Software Licensed Product\n        Product Name                      : NVIDIA Virtual Compute Server\n" +
			"        License Status                    : " + status + "\n    IBMNPU\n        Relaxed Ordering Mode             : N/A\n\n")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	const name = "NVIDIA Virtual Compute Server"
	end := time.Date(2026, 1, 31, 9, 5, 7, 0, time.UTC)
	product := func(gpu, status string, expiry time.Time) license.Product {
		return license.Product{GPU: gpu, Name: name, Status: status, Expiry: expiry}
	}
	const first, second = "00000000:02:01.0", "00000000:03:01.0"
	for text, tc := range map[string]struct {
		output   string
		want     []license.Product
		licensed bool
	}{
		"a license with an end":          {output("Licensed (Expiry: 2026-1-31 9:5:7 GMT)"), []license.Product{product(first, "Licensed (Expiry: 2026-1-31 9:5:7 GMT)", end)}, true},
		"a license without an end":       {output("Licensed (Expiry: Permanent)"), []license.Product{product(first, "Licensed (Expiry: Permanent)", time.Time{})}, true},
		"an end that is not known":       {output("Licensed (Expiry: N/A)"), []license.Product{product(first, "Licensed (Expiry: N/A)", time.Time{})}, true},
		"a license of an older driver":   {output("Licensed"), []license.Product{product(first, "Licensed", time.Time{})}, true},
		"an end in another time zone":    {output("Licensed (Expiry: 2026-1-31 9:5:7 CET)"), []license.Product{product(first, "Licensed (Expiry: 2026-1-31 9:5:7 CET)", time.Time{})}, true},
		"a restricted GPU":               {output("Unlicensed (Restricted)"), []license.Product{product(first, "Unlicensed (Restricted)", time.Time{})}, false},
		"no license":                     {output("Unlicensed"), []license.Product{product(first, "Unlicensed", time.Time{})}, false},
		"a text that is not known":       {output("Licensed soon\x1b[31m"), []license.Product{product(first, "Licensed soon?[31m", time.Time{})}, false},
		"two GPUs":                       {output("Licensed", "N/A"), []license.Product{product(first, "Licensed", time.Time{}), product(second, "N/A", time.Time{})}, true},
		"a GPU without a license":        {"GPU 00000000:02:01.0\n    Product Name                          : NVIDIA H100\n    License Status : Licensed\n", nil, false},
		"a status outside of a product":  {"    vGPU Software Licensed Product\n        License Status                    : Licensed\n", nil, false},
		"a status after another section": {"    vGPU Software Licensed Product\n        Product Name : a\n    PCI\n        License Status : Licensed\n", []license.Product{{Name: "a"}}, false},
		"nothing":                        {"", nil, false},
		"a long name": {
			"GPU x\n    vGPU Software Licensed Product\n        Product Name : " + strings.Repeat("n", 1000) + "\n",
			[]license.Product{{GPU: "x", Name: strings.Repeat("n", 125) + "..."}},
			false,
		},
	} {
		t.Run(text, func(t *testing.T) {
			got := license.Parse(tc.output)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if len(got) > 0 && got[0].Licensed() != tc.licensed {
				t.Errorf("licensed is %t", got[0].Licensed())
			}
		})
	}
	if n := len(license.Parse("vGPU Software Licensed Product\n" + strings.Repeat(" Product Name : a\n", 10_000))); n != 256 {
		t.Errorf("%d products are kept", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(output("Licensed (Expiry: 2026-1-31 9:5:7 GMT)", "Unlicensed"))
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range license.Parse(text) {
			if max(len(p.GPU), len(p.Name), len(p.Status)) > 128 {
				t.Errorf("%+v is too long", p)
			}
		}
	})
}
