package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

func TestSplitArgs(t *testing.T) {
	for name, test := range map[string]struct {
		line        []string
		args, nodes []string
		err         string
	}{
		"no node selects all":                     {line: []string{"kubelet"}, args: []string{"kubelet"}},
		"the flag before the argument":            {line: []string{"--node", "node1", "kubelet"}, args: []string{"kubelet"}, nodes: []string{"node1"}},
		"the flag after the argument":             {line: []string{"kubelet", "--node", "node1"}, args: []string{"kubelet"}, nodes: []string{"node1"}},
		"the flag between arguments and repeated": {line: []string{"a.tar", "--node=node1", "b.tar", "--node", "node2"}, args: []string{"a.tar", "b.tar"}, nodes: []string{"node1", "node2"}},
		"a flag without a node is rejected":       {line: []string{"kubelet", "--node"}, err: "read flag --node: want the name of a node"},
	} {
		t.Run(name, func(t *testing.T) {
			var args, nodes []string
			app := &cli.App{
				Flags: []cli.Flag{nodeFlag()},
				Action: func(c *cli.Context) (err error) {
					args, nodes, err = splitArgs(c)
					return err
				},
			}
			got := ""
			if err := app.RunContext(t.Context(), append([]string{"cluster"}, test.line...)); err != nil {
				got = err.Error()
			}
			if got != test.err {
				t.Fatalf("error = %q, want %q", got, test.err)
			}
			if diff := cmp.Diff([][]string{test.args, test.nodes}, [][]string{args, nodes}); diff != "" {
				t.Errorf("arguments and nodes (-want +got):\n%s", diff)
			}
		})
	}
}
