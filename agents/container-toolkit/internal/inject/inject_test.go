package inject_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispecs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/pkg/gpu"
)

const gpuSpec = `{
  "cdiVersion": "1.1.0", "kind": "nvidia.com/gpu",
  "containerEdits": {
    "env": ["NVIDIA_VISIBLE_DEVICES=void", "PATH=/new"],
    "deviceNodes": [{"path": "/dev/null", "permissions": "rw"}, {"path": "/dev/outrigger-a", "type": "c", "major": 500, "minor": 1, "uid": 7}],
    "mounts": [{"hostPath": "/a/b/c", "containerPath": "/usr/lib/x/c", "options": ["ro", "rbind"]}, {"hostPath": "/p", "containerPath": "/proc", "type": "bind"}],
    "hooks": [{"hookName": "createContainer", "path": "/bin/hook", "args": ["hook", "one"], "env": ["A=b"], "timeout": 3}, {"hookName": "poststop", "path": "/bin/stop"}],
    "additionalGids": [0, 44, 44]
  },
  "devices": [
    {"name": "0", "containerEdits": {"env": ["GPU=0"], "deviceNodes": [{"path": "/dev/ctr-zero", "hostPath": "/dev/zero", "permissions": "none"}]}},
    {"name": "GPU-aB", "containerEdits": {"mounts": [{"hostPath": "/x", "containerPath": "/x"}], "intelRdt": {"closID": "gold"}, "netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}]}},
    {"name": "fifo", "containerEdits": {"deviceNodes": [{"path": "/dev/pipe", "type": "p"}], "additionalGids": [45]}}
  ]
}`

const yamlSpec = `---
cdiVersion: 0.5.0
kind: "nvidia.com/gds"
devices:
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/full
      fileMode: 438
containerEdits:
  env:
  - GDS=1
`

// write writes files, named folder/file, and returns the folder above them.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		path := filepath.Join(root, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(data), 0o600))
	}
	return root
}

func stat(path string) (inject.Node, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return inject.Node{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	types := map[uint32]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b", unix.S_IFIFO: "p"}
	kind, ok := types[st.Mode&unix.S_IFMT]
	if !ok {
		return inject.Node{}, fmt.Errorf("%s is not a device node", path)
	}
	return inject.Node{Type: kind, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev)), Mode: fs.FileMode(st.Mode &^ unix.S_IFMT)}, nil
}

// device returns the device that a qualified name asks for.
func device(name string) request.Device {
	kind, id, _ := strings.Cut(name, "=")
	return request.Device{Asked: name, Kind: kind, Names: []string{id}}
}

func asked(names ...string) []request.Device {
	var out []request.Device
	for _, n := range names {
		out = append(out, device(n))
	}
	return out
}

// run injects devices into a config.json.
func run(config string, dirs []string, names ...string) (*oci.Spec, error) {
	s, err := oci.Parse([]byte(config))
	if err != nil {
		return nil, err
	}
	devices, err := inject.Load(dirs, inject.Kinds(asked(names...))).Resolve(asked(names...))
	if err != nil {
		return nil, err
	}
	edits, err := inject.Target{User: s.User(), UserNamespace: s.UserNamespace(), Stat: stat}.Edits(devices)
	if err != nil {
		return nil, err
	}
	return s, s.Apply(edits)
}

// Not every file system can map owners.
func TestMountsMapOwnersWhereItIsNeeded(t *testing.T) {
	mount := func(path string, options ...string) *cdispecs.Mount {
		return &cdispecs.Mount{HostPath: path, ContainerPath: path, Options: options}
	}
	target := inject.Target{UserNamespace: true, Public: func(path string) bool { return path == "/public" }}
	for name, c := range map[string]struct {
		mount *cdispecs.Mount
		want  []string
	}{
		"a file that everybody may read":            {mount("/public", "ro", "bind"), []string{"ro", "bind"}},
		"a file that everybody may read and change": {mount("/public", "rw", "bind"), []string{"rw", "bind", "idmap"}},
		"a file of one user":                        {mount("/private", "ro", "rbind"), []string{"ro", "rbind", "ridmap"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := &inject.File{Spec: &cdispecs.Spec{}}
			edits, err := target.Edits([]inject.Device{{File: file, Edits: &cdispecs.ContainerEdits{Mounts: []*cdispecs.Mount{c.mount}}}})
			if err != nil || !slices.Equal(edits.Mounts[0].Options, c.want) {
				t.Errorf("options are %q, %v, want %q", edits.Mounts[0].Options, err, c.want)
			}
		})
	}
}

// The library of CDI, which engines use, gives the same config.json.
func TestInjectsAsTheLibraryOfCDI(t *testing.T) {
	root := write(t, map[string]string{
		"a/gpu.json": gpuSpec, "a/gds.yaml": yamlSpec, "a/other.json": `{"kind":"a.b/c"`, "a/notes.txt": gpuSpec,
		"b/gpu.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '1', containerEdits: {env: [LATER=1]}}, {name: '0', containerEdits: {env: [B=later]}}]\n",
	})
	dirs := []string{filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "none")}
	for name, config := range map[string]string{
		"an empty container": `{}`,
		"a container of an engine": `{"ociVersion":"1.2.0","process":{"env":["PATH=/bin","A=1"],"user":{"uid":1000,"gid":1001,"additionalGids":[44]}},
			"mounts":[{"destination":"/usr/lib/x","source":"y","type":"bind"},{"destination":"/proc","type":"proc","source":"proc"}],
			"hooks":{"prestart":[{"path":"/bin/x"}]},
			"linux":{"devices":[{"path":"/dev/null","type":"c","major":9,"minor":9}],"resources":{"devices":[{"allow":false,"access":"rwm"}]},"namespaces":[{"type":"pid"}]}}`,
		"a user namespace": `{"process":{"user":{"uid":0,"gid":0}},"linux":{"namespaces":[{"type":"user"}]}}`,
	} {
		for _, names := range [][]string{
			{"nvidia.com/gpu=fifo"},
			{"nvidia.com/gpu=GPU-aB", "nvidia.com/gpu=fifo"},
			{"nvidia.com/gds=all", "nvidia.com/gpu=GPU-aB"},
			{"nvidia.com/gpu=1", "nvidia.com/gpu=0", "nvidia.com/gpu=fifo"},
		} {
			t.Run(name+" "+strings.Join(names, ","), func(t *testing.T) {
				var want, got specs.Spec
				assert.NilError(t, json.Unmarshal([]byte(config), &want))
				cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
				assert.NilError(t, err)
				if _, err := cache.InjectDevices(&want, names...); err != nil {
					t.Fatal(err)
				}
				s, err := run(config, dirs, names...)
				assert.NilError(t, err)
				assert.NilError(t, json.Unmarshal(s.Bytes(), &got))
				if d := cmp.Diff(canonical(t, want), canonical(t, got)); d != "" {
					t.Errorf("config.json (-library +ours):\n%s", d)
				}
			})
		}
	}
}

// canonical returns a value as JSON has it.
func canonical(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	assert.NilError(t, err)
	var out any
	assert.NilError(t, json.Unmarshal(data, &out))
	return out
}

func TestResolve(t *testing.T) {
	later := strings.ReplaceAll(gpuSpec, "GPU=0", "GPU=later")
	dirs := func(t *testing.T, files map[string]string) []string {
		root := write(t, files)
		return []string{filepath.Join(root, "a"), filepath.Join(root, "b")}
	}
	for name, c := range map[string]struct {
		files map[string]string
		asked request.Device
		// want is the file and the name of the device, or a part of the error.
		want, err string
	}{
		"a later folder has precedence":     {map[string]string{"a/1.json": gpuSpec, "b/2.json": later}, device("nvidia.com/gpu=0"), "b/2.json 0", ""},
		"a device that only the first has":  {map[string]string{"a/1.json": gpuSpec, "b/2.yaml": yamlSpec}, device("nvidia.com/gpu=0"), "a/1.json 0", ""},
		"a UUID in another case":            {map[string]string{"a/1.json": gpuSpec}, device("nvidia.com/gpu=gpu-Ab"), "a/1.json GPU-aB", ""},
		"the second of two names":           {map[string]string{"a/1.json": gpuSpec}, request.Device{Kind: "nvidia.com/gpu", Names: []string{"x", "0"}}, "a/1.json 0", ""},
		"no GPU, with a spec that lacks it": {map[string]string{"a/1.json": gpuSpec}, inject.None("nvidia.com/gpu"), "a/1.json none", ""},
		"two specs of one folder":           {map[string]string{"a/1.json": gpuSpec, "a/2.json": later}, device("nvidia.com/gpu=0"), "", "1.json and"},
		"two in the first, one in the last": {map[string]string{"a/1.json": gpuSpec, "a/2.json": later, "b/3.json": later}, device("nvidia.com/gpu=0"), "b/3.json 0", ""},
		"no spec":                           {nil, device("nvidia.com/gpu=0"), "", "unresolvable CDI devices nvidia.com/gpu=0: there is no CDI spec of kind nvidia.com/gpu: write the specs in"},
		"a device that is not there":        {map[string]string{"a/1.json": gpuSpec}, device("nvidia.com/gpu=7"), "", "1.json has 0, GPU-aB, fifo"},
		"a spec that is cut":                {map[string]string{"a/1.json": gpuSpec[:400]}, device("nvidia.com/gpu=0"), "", "1.json: unexpected EOF"},
		"a spec with a field of the future": {map[string]string{"a/1.json": strings.Replace(gpuSpec, `"env"`, `"enw"`, 1)}, device("nvidia.com/gpu=0"), "", `unknown field "enw"`},
		"a YAML spec with such a field":     {map[string]string{"a/1.yaml": strings.Replace(yamlSpec, "env:", "enw:", 1)}, device("nvidia.com/gds=all"), "", "field enw not found"},
		"a spec of a version of the future": {map[string]string{"a/1.json": strings.Replace(gpuSpec, "1.1.0", "9.1.0", 1)}, device("nvidia.com/gpu=0"), "", `invalid version "9.1.0"`},
		"a device that appears twice":       {map[string]string{"a/1.json": strings.Replace(gpuSpec, "fifo", "0", 1)}, device("nvidia.com/gpu=0"), "", `device "0" appears twice`},
		"two documents":                     {map[string]string{"a/1.json": gpuSpec + "{}"}, device("nvidia.com/gpu=0"), "", "data after the JSON object"},
		"a broken spec of another kind":     {map[string]string{"a/1.json": gpuSpec, "a/2.json": `{"kind":"a.b/c","x`}, device("nvidia.com/gpu=0"), "a/1.json 0", ""},
		"a kind behind everything else":     {map[string]string{"a/1.json": `{"cdiVersion":"0.5.0","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}],"kind":"nvidia.com/gpu"}`}, device("nvidia.com/gpu=0"), "a/1.json 0", ""},
		"YAML in flow style":                {map[string]string{"a/1.yaml": "# x\n" + `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}`}, device("nvidia.com/gpu=0"), "a/1.yaml 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := inject.Load(dirs(t, c.files), []string{c.asked.Kind}).Resolve([]request.Device{c.asked})
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			if err != nil || len(got) != 1 {
				t.Fatalf("Resolve() = %v, %v", got, err)
			}
			if at := filepath.Join(filepath.Base(filepath.Dir(got[0].File.Path)), filepath.Base(got[0].File.Path)) + " " + got[0].Name; at != c.want {
				t.Errorf("Resolve() = %s, want %s", at, c.want)
			}
		})
	}
}

// Specs of other kinds may be there by the hundred, one for each claim of a pod.
func TestLoadParsesOnlyTheKindsThatAreAsked(t *testing.T) {
	root := write(t, map[string]string{"a/1.json": strings.Replace(gpuSpec, `"devices"`, `"x"`, 1), "a/2.yaml": yamlSpec})
	set := inject.Load([]string{filepath.Join(root, "a")}, []string{"nvidia.com/gds"})
	if len(set.Files) != 1 || len(set.Problems) != 0 || !set.HasKind("nvidia.com/gds") || set.HasKind("nvidia.com/gpu") {
		t.Errorf("Load() = %v, problems %v", set.Files, set.Problems)
	}
}

func TestANodeThatIsMissingWithoutTheDriver(t *testing.T) {
	root := write(t, map[string]string{"a/1.json": gpuSpec})
	set := inject.Load([]string{filepath.Join(root, "a")}, nil)
	devices, err := set.Resolve([]request.Device{device("nvidia.com/gpu=0")})
	assert.NilError(t, err)
	none := func(string) (inject.Node, error) { return inject.Node{}, fmt.Errorf("stat: %w", gpu.ErrNoDriver) }
	if _, err = (inject.Target{Stat: none}).Edits(devices); err == nil || !strings.Contains(err.Error(), "no NVIDIA driver (load it: modprobe nvidia)") {
		t.Errorf("Edits() = %v", err)
	}
}

func TestEditsRejects(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"a node that the host lacks": {`"/dev/zero"`, `"/dev/outrigger-none"`, "make it with nvidia-ctk system create-device-nodes"},
		"a node that is a file":      {`"/dev/zero"`, `"/etc/passwd"`, "/etc/passwd is not a device node"},
		"a node of another type":     {`"hostPath": "/dev/zero"`, `"hostPath": "/dev/zero", "type": "b"`, `has type "c" on the host, not "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			root := write(t, map[string]string{"a/1.json": strings.Replace(gpuSpec, c.old, c.new, 1)})
			_, err := run("{}", []string{filepath.Join(root, "a")}, "nvidia.com/gpu=0")
			assert.ErrorContains(t, err, c.want)
		})
	}
}

const driverSpec = `{"cdiVersion":"0.5.0","kind":"KIND","containerEdits":{
 "deviceNodes":[{"path":"/dev/nvidiactl","type":"c","major":195,"minor":255},{"path":"/dev/nvidia-uvm","type":"c","major":510},{"path":"/dev/nvidia-modeset","type":"c","major":195,"minor":254},{"path":"/dev/site","type":"c","major":1}],
 "mounts":[{"hostPath":"/d/libcuda.so.1","containerPath":"/usr/lib64/libcuda.so.580.1"},{"hostPath":"/d/a","containerPath":"/usr/lib64/libnvidia-ml.so.580.1"},
  {"hostPath":"/d/b","containerPath":"/usr/lib64/libnvidia-encode.so.1"},{"hostPath":"/d/c","containerPath":"/usr/bin/nvidia-smi"},{"hostPath":"/d/d","containerPath":"/opt/site/license"}],
 "hooks":[{"hookName":"createContainer","path":"/h","args":["h","create-symlinks","--link","libnvidia-encode.so.1::/usr/lib64/libnvidia-encode.so","--link=libcuda.so.1::/usr/lib64/libcuda.so"]},
  {"hookName":"createContainer","path":"/h","args":["h","create-symlinks","--link","libnvidia-encode.so.1::/usr/lib64/libnvidia-encode.so"]},
  {"hookName":"createContainer","path":"/h","args":["h","update-ldcache","--folder","/usr/lib64"]}]},
 "devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0","type":"c","major":195},{"path":"/dev/dri/card0","type":"c","major":226}]}}]}`

func TestFilterByCapability(t *testing.T) {
	for capabilities, want := range map[string]string{
		"utility":         "/dev/nvidiactl /dev/site /dev/nvidia0 libnvidia-ml.so.580.1 nvidia-smi license [h update-ldcache --folder /usr/lib64]",
		"compute,utility": "/dev/nvidiactl /dev/nvidia-uvm /dev/site /dev/nvidia0 libcuda.so.580.1 libnvidia-ml.so.580.1 nvidia-smi license [h create-symlinks --link libcuda.so.1::/usr/lib64/libcuda.so] [h update-ldcache --folder /usr/lib64]",
		"video,display":   "/dev/nvidiactl /dev/nvidia-modeset /dev/site /dev/nvidia0 /dev/dri/card0 libnvidia-encode.so.1 license [h create-symlinks --link libnvidia-encode.so.1::/usr/lib64/libnvidia-encode.so] [h create-symlinks --link libnvidia-encode.so.1::/usr/lib64/libnvidia-encode.so] [h update-ldcache --folder /usr/lib64]",
	} {
		if got := filtered(t, "nvidia.com/gpu", capabilities); got != want {
			t.Errorf("%s gives\n%s, want\n%s", capabilities, got, want)
		}
	}
	everything := filtered(t, "nvidia.com/gpu", "compute,display,graphics,ngx,utility,video")
	if n := strings.Count(everything, " "); n < 20 || filtered(t, "k8s.device-plugin.nvidia.com/gpu", "utility") == everything || filtered(t, "site.example/gpu", "utility") != everything {
		t.Errorf("all capabilities give %s", everything)
	}
}

// filtered returns what a container with capabilities gets.
func filtered(t *testing.T, kind, capabilities string) string {
	t.Helper()
	root := write(t, map[string]string{"a/1.json": strings.Replace(driverSpec, "KIND", kind, 1)})
	devices, err := inject.Load([]string{filepath.Join(root, "a")}, []string{kind}).Resolve(asked(kind + "=0"))
	assert.NilError(t, err)
	filter, err := inject.NewFilter(strings.Split(capabilities, ","))
	assert.NilError(t, err)
	none := func(path string) (inject.Node, error) { return inject.Node{}, fs.ErrNotExist }
	edits, err := inject.Target{Stat: none, Filter: filter}.Edits(devices)
	assert.NilError(t, err)
	var out []string
	for _, d := range edits.Devices {
		out = append(out, d.Path)
	}
	for _, m := range edits.Mounts {
		out = append(out, filepath.Base(m.Destination))
	}
	for _, h := range edits.Hooks {
		out = append(out, "["+strings.Join(h.Args, " ")+"]")
	}
	return strings.Join(out, " ")
}

func TestNoGroups(t *testing.T) {
	root := write(t, map[string]string{"a/1.json": gpuSpec})
	devices, err := inject.Load([]string{filepath.Join(root, "a")}, []string{"nvidia.com/gpu"}).Resolve(asked("nvidia.com/gpu=0", "nvidia.com/gpu=0"))
	if err != nil || len(devices) != 1 {
		t.Fatalf("Resolve() = %v, %v, want the device once", devices, err)
	}
	for no, want := range map[bool]int{false: 1, true: 0} {
		if edits, err := (inject.Target{Stat: stat, NoGIDs: no}).Edits(devices); err != nil || len(edits.GIDs) != want {
			t.Errorf("with NoGIDs %v, groups are %v, %v", no, edits.GIDs, err)
		}
	}
}

// FuzzLoad checks that what is accepted can be injected.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(gpuSpec), true)
	f.Add([]byte(yamlSpec), false)
	f.Add([]byte("kind: nvidia.com/gpu\ndevices: [null]\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		dir := t.TempDir()
		name := "1.yaml"
		if isJSON {
			name = "1.json"
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, file := range inject.Load([]string{dir}, []string{"nvidia.com/gpu", "nvidia.com/gds"}).Files {
			d := inject.Device{File: file, Name: file.Spec.Devices[0].Name, Edits: &file.Spec.Devices[0].ContainerEdits}
			filter, err := inject.NewFilter([]string{"utility"})
			if err != nil {
				t.Fatal(err)
			}
			none := func(string) (inject.Node, error) { return inject.Node{Type: "c"}, nil }
			edits, err := inject.Target{Stat: none, Filter: filter, UserNamespace: true}.Edits([]inject.Device{d})
			if err != nil {
				continue
			}
			s, err := oci.Parse([]byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(edits); err != nil {
				t.Fatal(err)
			}
		}
	})
}
