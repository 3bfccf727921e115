package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// TestANamedConfigFile names config files that the engine reads, and files that it does not read.
func TestANamedConfigFile(t *testing.T) {
	const (
		rke2     = "/var/lib/rancher/rke2/agent/etc/containerd/"
		microk8s = "/var/snap/microk8s/1/args/"
	)
	containerd := func(config string) []proc {
		return []proc{{pid: 7, exe: "/none/containerd", cmd: "containerd --config " + config}}
	}
	imports := map[string]string{containerdConfig: input(t, "imports-named-file-v2.toml")}
	for name, tc := range map[string]struct {
		engine Name
		named  string
		dropIn string
		procs  []proc
		files  map[string]string
		// want is: main, drop-in; or the error.
		want, err string
	}{
		"the main file":                   {engine: Containerd, named: "/a.toml", procs: containerd("/a.toml"), want: "/a.toml " + containerdDropIn},
		"an imported file":                {engine: Containerd, named: "/etc/containerd/nvidia-config.toml", procs: containerd(containerdConfig), files: imports, want: "/etc/containerd/config.toml /etc/containerd/nvidia-config.toml"},
		"an imported file, nothing runs":  {engine: Containerd, named: "/etc/containerd/nvidia-config.toml", files: imports, want: "/etc/containerd/config.toml /etc/containerd/nvidia-config.toml"},
		"an imported file and a drop-in":  {engine: Containerd, named: "/etc/containerd/nvidia-config.toml", dropIn: "/d.toml", procs: containerd(containerdConfig), files: imports, want: "/etc/containerd/config.toml /d.toml"},
		"a file that is not imported":     {engine: Containerd, named: "/etc/containerd/nvidia.toml", procs: containerd(containerdConfig), files: imports, err: "the running engine reads /etc/containerd/config.toml, and does not read /etc/containerd/nvidia.toml"},
		"a file of an engine that is off": {engine: Containerd, named: "/etc/containerd/nvidia.toml", want: "/etc/containerd/nvidia.toml " + containerdDropIn},
		"a template that does not exist":  {engine: Containerd, named: rke2 + "config.toml.tmpl", procs: containerd(rke2 + "config.toml"), err: `is a template of k3s or RKE2: leave --runtime-config`},
		"a template that exists": {
			engine: Containerd, named: rke2 + "config-v3.toml.tmpl", procs: containerd(rke2 + "config.toml"),
			files: map[string]string{rke2 + "config-v3.toml.tmpl": "{{ template \"base\" . }}\n"}, err: `must begin with {{ template "base" . }}`,
		},
		"a template, nothing runs": {engine: Containerd, named: rke2 + "config.toml.tmpl", err: "is a template of k3s or RKE2"},
		"the config of RKE2":       {engine: Containerd, named: rke2 + "config.toml", procs: containerd(rke2 + "config.toml"), want: rke2 + "config.toml " + rke2 + rancherDropIn},
		"a file in the folder of k0s": {
			engine: Containerd, named: "/etc/k0s/containerd.d/nvidia.toml", procs: containerd(k0sConfig),
			files: map[string]string{k0sConfig: "# k0s_managed=true\nversion = 2\n"}, want: k0sConfig + " /etc/k0s/containerd.d/nvidia.toml",
		},
		"a file in the folder of k0s that did not start yet": {
			engine: Containerd, named: "/etc/k0s/containerd.d/nvidia.toml",
			files: map[string]string{"/etc/k0s/k0s.yaml": ""}, want: k0sConfig + " /etc/k0s/containerd.d/nvidia.toml",
		},
		"a file in the folder of k0s whose config a person writes": {
			engine: Containerd, named: "/etc/k0s/containerd.d/nvidia.toml", procs: containerd(k0sConfig),
			files: map[string]string{k0sConfig: "version = 2\n"}, err: "does not read /etc/k0s/containerd.d/nvidia.toml",
		},
		"a drop-in outside of the folder of k0s": {
			engine: Containerd, dropIn: containerdDropIn, procs: containerd(k0sConfig),
			files: map[string]string{k0sConfig: "# k0s_managed=true\nversion = 2\n"}, err: "k0s reads the folder /etc/k0s/containerd.d",
		},
		"the template of MicroK8s": {engine: Containerd, named: microk8s + microk8sTemplate, procs: containerd(microk8s + "containerd.toml"), want: microk8s + microk8sTemplate + " " + containerdDropIn},
		"the other file of Docker": {engine: Docker, named: "/etc/d.json", procs: []proc{{pid: 7, exe: "/none/dockerd", cmd: "dockerd"}}, err: "the running engine reads /etc/docker/daemon.json, and does not read /etc/d.json"},
		"the file of a Docker without root": {
			engine: Docker, named: "/home/u/.config/docker/daemon.json", want: "/home/u/.config/docker/daemon.json ",
			procs: []proc{{pid: 7, exe: "/none/dockerd", cmd: "dockerd", env: "ROOTLESSKIT_STATE_DIR=/x\x00HOME=/home/u\x00"}},
		},
		"a drop-in of CRI-O":               {engine: CRIO, named: "/etc/crio/crio.conf.d/n.conf", procs: []proc{{pid: 7, exe: "/none/crio", cmd: "crio"}}, want: crioConfig + " /etc/crio/crio.conf.d/n.conf"},
		"the other file of CRI-O":          {engine: CRIO, named: "/etc/crio/config.toml", procs: []proc{{pid: 7, exe: "/none/crio", cmd: "crio"}}, err: "does not read /etc/crio/config.toml"},
		"a drop-in that CRI-O cannot read": {engine: CRIO, dropIn: "/etc/crio/conf.d/n.toml", procs: []proc{{pid: 7, exe: "/none/crio", cmd: "crio"}}, err: "does not read the drop-in file /etc/crio/conf.d/n.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			for _, dir := range []string{"/etc/containerd", "/etc/crio", "/etc/k0s/containerd.d"} {
				assert.NilError(t, os.MkdirAll(filepath.Join(n.root, dir), 0o755))
			}
			for path, text := range tc.files {
				n.put(path, text)
			}
			n.run(tc.procs...)
			c := n.config(tc.engine)
			c.ConfigPath, c.DropIn = tc.named, tc.dropIn
			before := n.snapshot()
			got, err := n.keeper(c).locate(context.Background())
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				_, err = n.keeper(c).Apply(context.Background())
				assert.ErrorContains(t, err, tc.err)
				assert.Equal(t, cmp.Diff(before, n.snapshot()), "")
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, got.main+" "+got.dropIn, tc.want)
			n.apply(c)
			n.undo(c)
			assert.Equal(t, cmp.Diff(before, n.snapshot()), "")
		})
	}
}

// TestRealContainerdWithANamedFileThatItImports writes to the named file only if containerd keeps
// the other settings of its plugin.
func TestRealContainerdWithANamedFileThatItImports(t *testing.T) {
	for v, program := range containerds(t) {
		t.Run(v, func(t *testing.T) {
			r := newReal(t, Containerd, program)
			text := strings.ReplaceAll(input(t, "imports-named-file-v2.toml"), "/etc/containerd/", r.dir+"/")
			r.put("config", text)
			node{T: t, root: r.dir}.run(proc{pid: 7, exe: program, cmd: "containerd --config " + filepath.Join(r.dir, "config")})
			assert.NilError(t, os.Remove(filepath.Join(r.dir, "proc/7/root")))
			assert.NilError(t, os.Symlink("/", filepath.Join(r.dir, "proc/7/root")))
			// Without a socket, the process is the only one that counts.
			r.config.ConfigPath, r.config.DropIn, r.config.Socket = filepath.Join(r.dir, "nvidia-config.toml"), "", ""
			k := r.keeper()
			tg, err := k.locate(context.Background())
			assert.NilError(t, err)
			// Otherwise the test would change this machine.
			assert.Equal(t, tg.main+" "+tg.dropIn, filepath.Join(r.dir, "config")+" "+r.config.ConfigPath)
			_, err = k.Apply(context.Background())
			assert.NilError(t, err)
			doc, err := k.dump(context.Background(), tg)
			assert.NilError(t, err)
			cri := tableAt(doc, schemaOf(doc).cri)
			for _, name := range []string{"runc", "nvidia"} {
				assert.Equal(t, valueAt(cri, []string{"containerd", "runtimes", name, "options", "SystemdCgroup"}), true, name)
			}
			assert.Equal(t, valueAt(cri, []string{"containerd", "runtimes", "nvidia", "options", "BinaryName"}), r.config.RuntimePath)
			dump, err := r.keeper().host.run(context.Background(), program, "containerd", "--config", tg.main, "config", "dump")
			assert.NilError(t, err)
			assert.Assert(t, strings.Contains(dump, "registry.example.org/pause:3.9"), "%s", dump)
			merges := parseVersion(v + ".0").atLeast(mergesTables())
			assert.Equal(t, exists(r.config.ConfigPath), merges)
			_, err = k.Undo(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, r.get("config"), text)
			assert.Assert(t, !exists(r.config.ConfigPath))
		})
	}
}
