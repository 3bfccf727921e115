package engine

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

func TestDetect(t *testing.T) {
	containerd := proc{pid: 7, exe: "/usr/bin/containerd", cmd: "containerd"}
	crio := proc{pid: 8, exe: "/usr/bin/crio", cmd: "crio"}
	docker := proc{pid: 9, exe: "/usr/bin/dockerd", cmd: "dockerd"}
	dockers := proc{pid: 10, parent: 9, exe: "/usr/bin/containerd", cmd: "containerd --config /run/docker/containerd/containerd.toml"}
	contained := proc{pid: 11, exe: "/usr/bin/crio", cmd: "crio", elsewhere: true}
	for name, tc := range map[string]struct {
		procs []proc
		want  Name
	}{
		"the default runs":                           {procs: []proc{containerd}, want: Containerd},
		"the default and another one run":            {procs: []proc{containerd, crio}, want: Containerd},
		"only another one runs":                      {procs: []proc{crio}, want: CRIO},
		"Docker runs, with a containerd of its own":  {procs: []proc{docker, dockers}, want: Docker},
		"two others run, so that none is the node's": {procs: []proc{docker, crio}, want: Containerd},
		"another one runs in a container":            {procs: []proc{contained}, want: Containerd},
		"none runs":                                  {want: Containerd},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.put("proc/1/cmdline", "init\x00")
			n.run(tc.procs...)
			c := n.config(Containerd)
			c.ConfigPath, c.DropIn, c.Socket, c.Executable, c.Reload = "/c", "/d", "/s", "/e", Signal
			want := c
			if want.Engine = tc.want; tc.want != Containerd {
				want.ConfigPath, want.DropIn, want.Socket, want.Executable, want.Reload = "", "", "", "", ""
			}
			assert.Equal(t, cmp.Diff(want, c.Detect(slog.New(slog.DiscardHandler))), "")
		})
	}
}
