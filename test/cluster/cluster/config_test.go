package cluster_test

import (
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
)

func TestProgramsThatAreMissingAreNamedWithTheFix(t *testing.T) {
	bin := t.TempDir()
	for name, c := range map[string]struct {
		config cluster.Config
		fixes  []string
	}{
		"containerd": {cluster.Config{GPUNodes: 1}, []string{"containerd", "gpu-sim", "run: make cluster"}},
		"CRI-O":      {cluster.Config{CRIONodes: 1}, []string{"crio", "tools/download.sh test/cluster/components/crio && test/cluster/build.sh " + bin}},
		"kwok":       {cluster.Config{Kwok: true}, []string{"kwok-stages.yaml", "make cluster && tools/download.sh test/cluster/components/kwok && "}},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.BinDir, c.config.Nodes = bin, 1
			_, err := cluster.Up(t.Context(), c.config)
			if err == nil {
				t.Fatal("it started without programs")
			}
			for _, want := range append(c.fixes, bin+" has no ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %q", err, want)
				}
			}
		})
	}
}
