package oci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/oci"
)

const config = `{
  "ociVersion": "1.0.2-dev", "x-future": {"big": 12345678901234567890, "n": 1.50},
  "process": {"user": {"uid": 1000, "gid": 10, "additionalGids": [5]}, "args": ["a<b>&"],
    "env": ["PATH=/bin", "A=1", "A=2"], "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"], "effective": []}, "z": 1e2},
  "root": {"path": "rootfs"},
  "mounts": [{"destination": "/a/b", "source": "x", "new": 1}, {"destination": "/proc", "type": "proc"}],
  "hooks": {"prestart": [{"path": "/usr/bin/old", "args": ["old"]}, {"path": "/usr/bin/other"}]},
  "linux": {"namespaces": [{"type": "pid"}], "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "k": 0}],
    "resources": {"devices": [{"allow": false, "access": "rwm"}], "memory": {"limit": 9223372036854775807}}}
}
`

func parse(t *testing.T, data string) *oci.Spec {
	t.Helper()
	s, err := oci.Parse([]byte(data))
	assert.NilError(t, err)
	return s
}

func apply(t *testing.T, s *oci.Spec, e oci.Edits) {
	t.Helper()
	assert.NilError(t, s.Apply(e))
}

func TestApply(t *testing.T) {
	major, minor, mode := int64(195), int64(0), os.FileMode(0o666)
	for name, c := range map[string]struct {
		edits oci.Edits
		// old and new are parts of the file before and after. The rest stays.
		old, new string
	}{
		"variables: the last of several is replaced": {
			oci.Edits{Env: []string{"A=3", "B=<4>"}},
			`["PATH=/bin", "A=1", "A=2"]`, `["PATH=/bin","A=1","A=3","B=<4>"]`,
		},
		"groups": {oci.Edits{GIDs: []uint32{5, 44}}, `[5]`, `[5,44]`},
		"a device, replaced": {
			oci.Edits{Devices: []specs.LinuxDevice{{Path: "/dev/fuse", Type: "c", Major: 195, FileMode: &mode}}},
			`[{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "k": 0}]`,
			`[{"path":"/dev/fuse","type":"c","major":195,"minor":0,"fileMode":438}]`,
		},
		"a rule": {
			oci.Edits{Rules: []specs.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rw"}}},
			`[{"allow": false, "access": "rwm"}]`, `[{"allow": false, "access": "rwm"},{"allow":true,"type":"c","major":195,"minor":0,"access":"rw"}]`,
		},
		"mounts are sorted and keep what is unknown": {
			oci.Edits{Mounts: []specs.Mount{{Destination: "/etc/c", Source: "/c", Options: []string{"ro"}}, {Destination: "/proc", Source: "/p"}}},
			`[{"destination": "/a/b", "source": "x", "new": 1}, {"destination": "/proc", "type": "proc"}]`,
			`[{"destination":"/proc","source":"/p"},{"destination": "/a/b", "source": "x", "new": 1},{"destination":"/etc/c","source":"/c","options":["ro"]}]`,
		},
		"a hook of a phase that has none, and one that is there": {
			oci.Edits{Hooks: []oci.Hook{{Phase: "createContainer", Hook: specs.Hook{Path: "/h", Env: []string{"A=1"}}}, {Phase: "prestart", Hook: specs.Hook{Path: "/usr/bin/other"}}}},
			`{"path": "/usr/bin/other"}]}`, `{"path": "/usr/bin/other"}],"createContainer":[{"path":"/h","env":["A=1"]}]}`,
		},
		"an RDT class and a network device": {
			oci.Edits{IntelRdt: &specs.LinuxIntelRdt{ClosID: "gold"}, NetDevices: map[string]specs.LinuxNetDevice{"eth1": {Name: "net1"}}},
			`"memory": {"limit": 9223372036854775807}}}`, `"memory": {"limit": 9223372036854775807}},"netDevices":{"eth1":{"name":"net1"}},"intelRdt":{"closID":"gold"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, config)
			apply(t, s, c.edits)
			if !strings.Contains(config, c.old) {
				t.Fatalf("%q is not in the file", c.old)
			}
			if d := cmp.Diff(compact(strings.Replace(config, c.old, c.new, 1)), compact(string(s.Bytes()))); d != "" {
				t.Errorf("file (-want +got):\n%s", d)
			}
		})
	}
}

// compact removes the white space that means nothing; it changes nothing else.
func compact(s string) string {
	var b strings.Builder
	quoted := false
	for _, r := range s {
		if r == '"' {
			quoted = !quoted
		}
		if quoted || r != ' ' && r != '\n' {
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), ",\"", ",\n\"")
}

func TestApplyToAnEmptySpec(t *testing.T) {
	s := parse(t, `{"hooks":null,"linux":{"devices":null},"mounts":null}`)
	apply(t, s, oci.Edits{
		Env: []string{"A=1"}, GIDs: []uint32{7}, Mounts: []specs.Mount{{Destination: "/a"}},
		Devices: []specs.LinuxDevice{{Path: "/dev/a", Type: "p"}}, Hooks: []oci.Hook{{Phase: "prestart", Hook: specs.Hook{Path: "/h"}}},
		NetDevices: map[string]specs.LinuxNetDevice{"b": {Name: "c"}},
	})
	want := `{"hooks":{"prestart":[{"path":"/h"}]},"linux":{"devices":[{"path":"/dev/a","type":"p","major":0,"minor":0}],"netDevices":{"b":{"name":"c"}}},` +
		`"mounts":[{"destination":"/a"}],"process":{"env":["A=1"],"user":{"additionalGids":[7]}}}`
	if d := cmp.Diff(want, string(s.Bytes())); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
}

func TestParseRejects(t *testing.T) {
	for data, want := range map[string]string{
		`{"process":{"env":[]},"process":{"env":["A=2"]}}`: `key "process" appears twice`,
		`{"process":{"env":[],"Env":["A=2"]}}`:             `process: key "Env" appears twice`,
		`{"mounts":[],"Mounts":[],"a":1}`:                  `key "Mounts" appears twice`,
		``:                                                 "it is empty",
		`null`:                                             "it is empty",
		`[]`:                                               "it is not valid JSON",
		`{"process":{"env":"A=1"}}`:                        "process: env: ",
		`{"process":[]}`:                                   "process: it is not valid JSON",
		`{"process":`:                                      "it is not valid JSON",
		`{"process":{"env":["A=1`:                          "it is not valid JSON",
		`{"a" "b"}`:                                        "it is not valid JSON",
		`{"a":1 "b":2}`:                                    "it is not valid JSON",
		`{a:1}`:                                            "invalid character",
		`{} x`:                                             "it is not valid JSON",
		`{"mounts":{"a":1}}`:                               "mounts: ",
		`{"linux":{"namespaces":[{"type":1}]}}`:            "linux: namespaces: ",
	} {
		if _, err := oci.Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%s) = %v, want %q", data, err, want)
		}
	}
	s := parse(t, `{"linux":{"devices":5}}`)
	if err := s.Apply(oci.Edits{Devices: []specs.LinuxDevice{{Path: "/dev/a"}}}); err == nil || string(s.Bytes()) != `{"linux":{"devices":5}}` {
		t.Errorf("Apply() = %v, %s, want an error and no change", err, s.Bytes())
	}
}

func TestRemovePrestart(t *testing.T) {
	s := parse(t, config)
	remove := func(name string) error {
		return s.RemovePrestart(func(h specs.Hook) bool { return filepath.Base(h.Path) == name })
	}
	if err := remove("nothing"); err != nil || string(s.Bytes()) != config {
		t.Errorf("removing nothing changes the file: %v", err)
	}
	assert.NilError(t, remove("old"))
	if left := parse(t, string(s.Bytes())).Prestart(); len(left) != 1 || left[0].Path != "/usr/bin/other" {
		t.Errorf("hooks are %v", left)
	}
}

func TestPrivileged(t *testing.T) {
	for capabilities, want := range map[string]bool{
		`{"bounding":["CAP_SYS_ADMIN"]}`:                           true,
		`{"bounding":["CAP_CHOWN"],"effective":["CAP_SYS_ADMIN"]}`: false,
		`["CAP_CHOWN","CAP_SYS_ADMIN"]`:                            true,
		`["CAP_CHOWN"]`:                                            false,
		`null`:                                                     false,
		`{"bounding":null}`:                                        false,
		`"CAP_SYS_ADMIN"`:                                          false,
		`{"bounding":["cap_sys_admin"],"permitted":["CAP_SYS_ADMIN"]}`: false,
	} {
		if got := parse(t, `{"process":{"capabilities":`+capabilities+`}}`).Privileged(); got != want {
			t.Errorf("Privileged() with %s = %v, want %v", capabilities, got, want)
		}
	}
	if parse(t, `{}`).Privileged() {
		t.Error("a spec without a process is privileged")
	}
}

func TestLoadAndSave(t *testing.T) {
	bundle := t.TempDir()
	path := filepath.Join(bundle, "config.json")
	assert.NilError(t, os.WriteFile(path, []byte(config), 0o640))
	if os.Getuid() == 0 {
		assert.NilError(t, os.Chown(path, 1234, 5678))
	}
	s, err := oci.Load(bundle)
	assert.NilError(t, err)
	if want := filepath.Join(bundle, "rootfs"); s.Root() != want {
		t.Errorf("Root() = %s, want %s", s.Root(), want)
	}
	reader, err := os.Open(path)
	assert.NilError(t, err)
	defer reader.Close()
	apply(t, s, oci.Edits{Env: []string{"B=1"}})
	assert.NilError(t, s.Save())
	old := make([]byte, len(config)+1)
	if n, _ := reader.Read(old); string(old[:n]) != config {
		t.Error("a reader of the old file sees a change")
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != string(s.Bytes()) || !json.Valid(data) {
		t.Errorf("the file has %q, %v", data, err)
	}
	info, err := os.Stat(path)
	assert.NilError(t, err)
	if st, ok := info.Sys().(*syscall.Stat_t); info.Mode() != 0o640 || os.Getuid() == 0 && (!ok || st.Uid != 1234 || st.Gid != 5678) {
		t.Errorf("the file has the mode %v and the owner %v", info.Mode(), info.Sys())
	}
	if entries, _ := os.ReadDir(bundle); len(entries) != 1 {
		t.Errorf("the bundle has %v", entries)
	}
}

func TestLoadRejects(t *testing.T) {
	if _, err := oci.Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("Load() of an empty bundle = %v", err)
	}
	bundle := t.TempDir()
	assert.NilError(t, syscall.Mkfifo(filepath.Join(bundle, "config.json"), 0o600))
	if _, err := oci.Load(bundle); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("Load() of a pipe = %v", err)
	}
	bundle = t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(bundle, "config.json"), nil, 0o600))
	assert.NilError(t, os.Truncate(filepath.Join(bundle, "config.json"), 17<<20))
	if _, err := oci.Load(bundle); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("Load() of a huge file = %v", err)
	}
}

func TestReadState(t *testing.T) {
	for in, want := range map[string]oci.State{
		`{"ociVersion":"1.0.2","id":"a","status":"created","pid":7,"bundle":"/b"}`: {PID: 7, Bundle: "/b"},
		`{"pid":7,"bundlePath":"/old"}`:                                            {PID: 7, Bundle: "/old"},
		`{"pid":7,"bundlePath":"/old","bundle":"/new"}`:                            {PID: 7, Bundle: "/new"},
	} {
		if got, err := oci.ReadState(strings.NewReader(in)); got != want || err != nil {
			t.Errorf("ReadState(%s) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{``, `{}`, `{"pid":-1,"bundle":"/b"}`, `{"pid":"1","bundle":"/b"}`, strings.Repeat(" ", 2<<20)} {
		if got, err := oci.ReadState(strings.NewReader(in)); err == nil {
			t.Errorf("ReadState(%.20q) = %v, want an error", in, got)
		}
	}
}

// FuzzSpec checks that Apply changes what it should, and nothing else.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(config))
	f.Add([]byte(`{"process":{"env":["A=1"],"user":{"additionalGids":null}},"hooks":{},"a":{"A":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := oci.Parse(data)
		if err != nil {
			return
		}
		var before map[string]json.RawMessage
		if err := json.Unmarshal(data, &before); err != nil || s.Apply(oci.Edits{Env: []string{"FUZZ=1"}}) != nil {
			return
		}
		changed, err := oci.Parse(s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if env := changed.Env(); len(env) == 0 || env[len(env)-1] != "FUZZ=1" && !strings.Contains(strings.Join(env, "\n"), "FUZZ=1") {
			t.Fatalf("variables are %q", env)
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(s.Bytes(), &after); err != nil {
			t.Fatal(err)
		}
		for key, value := range before {
			if !strings.EqualFold(key, "process") && string(after[key]) != string(value) {
				t.Fatalf("key %q has %s, not %s", key, after[key], value)
			}
		}
	})
}
