// Package oci reads and changes the config.json of an OCI bundle, and reads the container state
// that a runtime passes to a hook.
//
// Apply encodes only the parts of a config.json that it changes. Unknown keys, the order of keys,
// and the digits of numbers are preserved.
package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"outrigger.dev/pkg/hostfs"
)

const (
	// maxSpec is larger than any config.json. Engines write about 10 KiB, and up to 1 MiB for a
	// container with thousands of mounts.
	maxSpec = 16 << 20
	// maxState is larger than any state.
	maxState = 1 << 20
)

// Spec is the config.json of a bundle. Bytes includes the changes of Apply. The methods that return
// a part of the config.json return the original part.
type Spec struct {
	data     []byte
	document document
	// bundle and path are empty if Parse returned the Spec.
	bundle, path string
}

// document has the parts of a config.json that this package reads.
type document struct {
	env          []string
	user         specs.User
	capabilities json.RawMessage
	root         specs.Root
	mounts       []specs.Mount
	annotations  map[string]string
	prestart     []specs.Hook
	namespaces   []struct{ Type specs.LinuxNamespaceType }
}

// Load reads the config.json in the folder bundle.
func Load(bundle string) (*Spec, error) {
	path := filepath.Join(bundle, "config.json")
	data, err := hostfs.ReadFile(path, maxSpec)
	if err != nil {
		return nil, fmt.Errorf("read container spec: %w", err)
	}
	s, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read container spec %s: %w", path, err)
	}
	s.bundle, s.path = bundle, path
	return s, nil
}

// Parse parses a config.json. It does not validate the parts that it does not read, because the
// low-level runtime validates them. It rejects a key that appears twice, because programs differ in
// the value that they use.
func Parse(data []byte) (*Spec, error) {
	if isNull(data) {
		return nil, errors.New("it is empty")
	}
	root, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	s := &Spec{data: data}
	d := &s.document
	for _, part := range []struct {
		key string
		to  map[string]any
	}{
		{"process", map[string]any{"env": &d.env, "user": &d.user, "capabilities": &d.capabilities}},
		{"hooks", map[string]any{"prestart": &d.prestart}},
		{"linux", map[string]any{"namespaces": &d.namespaces}},
	} {
		inner, err := parseObject(root.get(part.key))
		if err == nil {
			err = inner.decode(part.to)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.key, err)
		}
	}
	return s, root.decode(map[string]any{"root": &d.root, "mounts": &d.mounts, "annotations": &d.annotations})
}

// Bytes returns the config.json, including all changes.
func (s *Spec) Bytes() []byte { return s.data }

// Save writes the config.json of a Spec of Load atomically. It keeps the owner and the mode of the
// file. It does not sync, because the file is useless after a crash.
func (s *Spec) Save() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("write container spec: %w", err)
	}
	r, err := hostfs.Replace(s.path, info.Mode())
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		if err := r.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", s.path, err), r.Close())
		}
	}
	if _, err := r.Write(s.data); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", s.path, err), r.Close())
	}
	return errors.Join(r.Show(), r.Close())
}

// Env returns the environment of the container's process.
func (s *Spec) Env() []string { return s.document.env }

// User returns the user of the container's process.
func (s *Spec) User() specs.User { return s.document.user }

// Mounts returns the mounts.
func (s *Spec) Mounts() []specs.Mount { return s.document.mounts }

// Annotations returns the annotations.
func (s *Spec) Annotations() map[string]string { return s.document.annotations }

// Prestart returns the prestart hooks.
func (s *Spec) Prestart() []specs.Hook { return s.document.prestart }

// Root returns the root folder of the container. A relative path is below the bundle.
func (s *Spec) Root() string {
	path := s.document.root.Path
	switch {
	case path == "":
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(s.bundle, path)
}

// Privileged reports whether the container's process can have CAP_SYS_ADMIN. It checks the bounding
// set, or the only list of capabilities in a config.json from before OCI 1.0.
func (s *Spec) Privileged() bool {
	var names []string
	var sets struct{ Bounding []string }
	if json.Unmarshal(s.document.capabilities, &names) != nil {
		if json.Unmarshal(s.document.capabilities, &sets) != nil {
			return false
		}
		names = sets.Bounding
	}
	return slices.Contains(names, "CAP_SYS_ADMIN")
}

// UserNamespace reports whether the container has a user namespace.
func (s *Spec) UserNamespace() bool {
	for _, ns := range s.document.namespaces {
		if ns.Type == specs.UserNamespace {
			return true
		}
	}
	return false
}

// State is the container state that a runtime passes to a hook.
type State struct {
	// PID is the ID of the container's process in the PID namespace of the runtime.
	PID int
	// Bundle is the folder of the bundle.
	Bundle string
}

// ReadState reads the state that a runtime writes to the standard input of a hook. It also accepts
// the key "bundlePath" of runtimes from before OCI 1.0.
func ReadState(r io.Reader) (State, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxState+1))
	if err != nil {
		return State{}, fmt.Errorf("read container state: %w", err)
	}
	if len(data) > maxState {
		return State{}, fmt.Errorf("read container state: it is larger than %d MiB", maxState>>20)
	}
	if len(data) == 0 {
		return State{}, errors.New("read container state: standard input is empty: a hook gets its state from an OCI runtime")
	}
	var in struct {
		PID        int    `json:"pid"`
		Bundle     string `json:"bundle"`
		BundlePath string `json:"bundlePath"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return State{}, fmt.Errorf("read container state: %w", err)
	}
	if in.Bundle == "" {
		in.Bundle = in.BundlePath
	}
	if in.PID < 0 {
		return State{}, fmt.Errorf("read container state: %d is not a process ID", in.PID)
	}
	if in.Bundle == "" {
		return State{}, errors.New("read container state: it names no bundle: a hook gets its state from an OCI runtime")
	}
	return State{PID: in.PID, Bundle: in.Bundle}, nil
}
