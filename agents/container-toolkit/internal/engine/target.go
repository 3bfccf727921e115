package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// target describes the config of an engine: its files, and the process that loads them.
type target struct {
	engine Name
	// main is the main config file, dropIn the file for our tables ("" for Docker).
	main, dropIn string
	// containerd describes how to edit containerd's files.
	containerd containerdEdit
	// process is the running engine. It is nil if the engine does not run, or if this process has
	// no permission to find it. In the second case, denied is the error.
	process *process
	denied  error
	// program is the engine's program on the host; "" if it was not found.
	program string
	version version
	// socket is the socket of the engine, unit the systemd service that runs it.
	socket, unit string
}

// distributions returns the config files of Kubernetes distributions with a private containerd.
// They are used if containerd does not run.
func distributions() []string {
	return []string{
		"/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
		"/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
		k0sConfig,
		"/var/snap/microk8s/current/args/containerd-template.toml",
	}
}

const (
	k0sConfig = "/etc/k0s/containerd.toml"
	k0sDropIn = "/etc/k0s/containerd.d/99-nvidia.toml"
	// rancherConfig is the end of the config paths of k3s and RKE2. They write this file when
	// they start. It imports the drop-ins of a folder next to it.
	rancherConfig = "/agent/etc/containerd/config.toml"
	rancherDropIn = "config-v3.toml.d/99-nvidia.toml"
	// When microk8s starts, it writes its config from a template in the same folder.
	microk8sConfig, microk8sTemplate = "/args/containerd.toml", "containerd-template.toml"
)

// locate finds the config of the engine: the file that the Config names, or else the file of
// the running process, or of the last process that ran, or else the default.
func (k *Keeper) locate(ctx context.Context) (target, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.config
	t := target{engine: c.Engine, dropIn: c.DropIn, socket: c.Socket}
	var err error
	if t.process, err = k.host.findProcess(c.Engine, c.Socket, c.ConfigPath); errors.Is(err, fs.ErrPermission) {
		// The files at the default paths can still be changed.
		t.denied, err = err, nil
	}
	if err != nil {
		return t, err
	}
	k.last = cmp.Or(t.process, k.last)
	if p := k.last; p != nil {
		t.main = p.configPath(c.Engine)
		t.socket = cmp.Or(t.socket, p.socketPath(c.Engine))
		t.unit = p.unit
		if real, err := k.host.path(p.exe); t.process != nil || err == nil && exists(real) {
			t.program = p.exe
		}
	}
	t.socket = cmp.Or(t.socket, c.Engine.socket())
	t.unit = cmp.Or(t.unit, string(c.Engine)+".service")
	t.program = cmp.Or(c.Executable, t.program)
	if t.program == "" {
		t.program = k.host.which(c.Engine.program())
	}
	if t.program != "" {
		k.version = cmp.Or(k.versionOf(ctx, t), k.version)
	}
	t.version = k.version
	if err := k.place(&t); err != nil {
		return t, err
	}
	switch c.Engine {
	case Docker:
		t.dropIn = ""
	case CRIO:
		err = k.locateCRIO(&t)
	default:
		err = k.locateContainerd(&t)
	}
	return t, err
}

// locateContainerd completes a target for containerd. It supports the distributions that
// generate the config.
func (k *Keeper) locateContainerd(t *target) error {
	e := &t.containerd
	e.engine = t.version
	text, err := k.host.read(t.main)
	if err != nil {
		return err
	}
	if address := addressIn(text); k.config.Socket == "" && address != "" && (t.process == nil || t.process.option("address", "a") == "") {
		t.socket = address
	}
	dropIn := containerdDropIn
	switch {
	case strings.HasSuffix(t.main, rancherConfig):
		e.generated = true
		dropIn = path.Join(path.Dir(t.main), rancherDropIn)
	case managedByK0s(text), text == nil && t.main == k0sConfig:
		// k0s makes a missing file when it starts.
		e.external = true
		dropIn = k0sDropIn
	case strings.HasSuffix(t.main, microk8sConfig):
		template := path.Join(path.Dir(t.main), microk8sTemplate)
		if real, err := k.host.path(template); err == nil && exists(real) {
			t.main = template
		}
	}
	t.dropIn = cmp.Or(t.dropIn, dropIn)
	if e.external && path.Dir(t.dropIn) != path.Dir(k0sDropIn) {
		return fmt.Errorf("find the config of containerd: k0s reads the folder %s, and does not read the drop-in file %s: leave the flag of the drop-in file empty", path.Dir(k0sDropIn), t.dropIn)
	}
	e.noDropIn = path.Base(t.main) == microk8sTemplate
	e.main, e.dropIn = t.main, t.dropIn
	return nil
}

// managedByK0s reports whether k0s writes a config file, and merges the files of its folder.
func managedByK0s(text []byte) bool { return bytes.Contains(text, []byte("k0s_managed=true")) }

// addressIn returns the socket that a config file of containerd names, or "".
func addressIn(text []byte) string {
	docs, err := decodeAll([]file{{text: text}})
	if err != nil {
		return "" // the edit rejects the file
	}
	for _, p := range [][]string{{"plugins", "io.containerd.server.v1.grpc", "address"}, {"grpc", "address"}} {
		if address, _ := valueAt(docs[0], p).(string); path.IsAbs(address) {
			return address
		}
	}
	return ""
}

// files returns the config files that the engine loads, in this order, and the files that this
// package writes. A missing file has a nil text.
func (k *Keeper) files(t target) ([]file, error) {
	if t.engine == Docker {
		text, err := k.host.read(t.main)
		return []file{{path: t.main, text: text}}, err
	}
	var files []file
	add := func(paths ...string) error {
		for _, p := range paths {
			if slices.ContainsFunc(files, func(f file) bool { return f.path == p }) {
				continue
			}
			text, err := k.host.read(p)
			if err != nil {
				return err
			}
			files = append(files, file{path: p, text: text})
		}
		return nil
	}
	if err := add(t.main); err != nil {
		return nil, err
	}
	if t.engine == CRIO {
		dropIns, err := k.host.walk(filepath.Dir(t.dropIn))
		return files, errors.Join(err, add(dropIns...), add(t.dropIn))
	}
	// If there are more files, they import each other in a circle of patterns.
	const most = 1000
	for i := 0; i < len(files) && i < most && !t.containerd.noDropIn; i++ {
		imports, err := k.imports(files[i])
		if err == nil {
			err = add(imports...)
		}
		if err != nil {
			return nil, err
		}
	}
	return files, add(t.dropIn)
}

// imports returns the files that a config file of containerd imports.
func (k *Keeper) imports(f file) ([]string, error) {
	docs, err := decodeAll([]file{f})
	if err != nil {
		return nil, err
	}
	list, _ := valueAt(docs[0], []string{"imports"}).([]any)
	var out []string
	for _, v := range list {
		pattern, _ := v.(string)
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(f.path), pattern)
		}
		matches := []string{path.Clean(pattern)}
		if strings.Contains(pattern, "*") {
			if matches, err = k.host.glob(matches[0]); err != nil {
				return nil, err
			}
		}
		out = append(out, matches...)
	}
	return out, nil
}

// which returns the path of a program on the host, or "".
func (h host) which(program string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		p := path.Join(dir, program)
		if real, err := h.path(p); err == nil {
			if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return p
			}
		}
	}
	return ""
}

// versionOf returns the version that the engine's program prints.
func (k *Keeper) versionOf(ctx context.Context, t target) version {
	out, err := k.host.run(ctx, t.program, t.engine.program(), "--version")
	if err != nil {
		k.log.Debug("cannot read the version of the container engine, assuming an old one", "program", t.program, "err", err)
	}
	return parseVersion(out)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// edit returns the desired content of the files.
func (t target) edit(files []file, d Desired) (edit, error) {
	d, err := t.withoutFlags(d)
	if err != nil {
		return edit{}, err
	}
	switch t.engine {
	case Docker:
		e, err := editDocker(files, t.main, d)
		e.lowLevel = t.dockerLowLevel(textOf(files, t.main), d)
		return e, err
	case CRIO:
		return editCRIO(files, t.dropIn, t.version, d)
	case Containerd:
		return t.containerd.edit(files, d)
	default:
		return edit{}, fmt.Errorf("unknown container engine %q", t.engine)
	}
}
