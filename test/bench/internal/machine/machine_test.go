package machine

import (
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct{ cpuinfo, want string }{
		"a model name":         {"processor\t: 0\nmodel\t\t: 85\nmodel name\t: Example  CPU @ 2.5GHz\n", "2 processors (Example CPU @ 2.5GHz), 8 GiB of memory, Linux 6.12.4"},
		"without a model name": {"processor\t: 0\nCPU implementer\t: 0x41\n", "GiB of memory, Linux 6.12.4"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(test.cpuinfo, 2, 8<<30-100<<20, "6.12.4-1-amd64"); !strings.HasSuffix(got, test.want) {
				t.Errorf("describe() = %q, want the end %q", got, test.want)
			}
		})
	}
}
