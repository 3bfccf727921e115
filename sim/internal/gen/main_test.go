package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// TestSymbolListIsThatOfTheHeader holds the list that is kept in the
// repository against the header of the go-nvml version that go.mod names.
func TestSymbolListIsThatOfTheHeader(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	assert.NilError(t, err, "find go-nvml")
	header, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "gen/nvml/nvml.h"))
	assert.NilError(t, err)
	defer header.Close()
	var got bytes.Buffer
	assert.NilError(t, run([]string{"symbols"}, header, &got))
	want, err := os.ReadFile("../state/symbols_nvml.h")
	assert.NilError(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("symbols_nvml.h is out of date, run make -C sim/lib symbols (-want +got):\n%s", diff)
	}
}

const header = `
 * nvmlReturn_t DECLDIR nvmlInAComment(void);
#define nvmlInit nvmlInit_v2
nvmlReturn_t DECLDIR nvmlInit_v2(void);
DEPRECATED(13.0) nvmlReturn_t DECLDIR nvmlOld (int);
nvmlReturn_t  DECLDIR nvmlWide(nvmlDevice_t device,
                               int x);
const DECLDIR char* nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t DECLDIR nvmlOld(int);
`

func TestGenerate(t *testing.T) {
	tests := map[string]string{
		"symbols": "SIM_SYMBOL(nvmlErrorString)\nSIM_SYMBOL(nvmlInit_v2)\nSIM_SYMBOL(nvmlOld)\nSIM_SYMBOL(nvmlWide)\n",
		"stubs":   "#include \"stub.h\"\nSIM_STUB(nvmlInit_v2)\nSIM_STUB(nvmlOld)\nSIM_STUB(nvmlWide)\n",
	}
	for what, want := range tests {
		t.Run(what, func(t *testing.T) {
			var out bytes.Buffer
			assert.NilError(t, run([]string{what}, strings.NewReader(header), &out))
			_, got, _ := strings.Cut(out.String(), "\n") // the first line says who wrote it
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGenerateRejects(t *testing.T) {
	tests := map[string]struct {
		args  []string
		input string
	}{
		"no argument":         {nil, header},
		"an unknown argument": {[]string{"docs"}, header},
		"another header":      {[]string{"stubs"}, "int main(void);"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := run(test.args, strings.NewReader(test.input), &bytes.Buffer{}); err == nil {
				t.Error("got no error")
			}
		})
	}
}
