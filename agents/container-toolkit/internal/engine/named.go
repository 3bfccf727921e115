package engine

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// templateSuffix is the suffix of the templates for the config of k3s and RKE2.
const templateSuffix = ".tmpl"

// place finds the role of the config file that the Config names: it is the main file of the engine,
// or a file that the main file imports and thus a drop-in. The engine does not read other files, so
// place returns an error for them. If the engine has never run, place trusts the Config.
func (k *Keeper) place(t *target) error {
	named := k.config.ConfigPath
	main := t.main
	if main == "" {
		main = k.defaultMain(t.engine)
	}
	if named == "" {
		t.main = main
		return nil
	}
	if strings.HasSuffix(named, templateSuffix) && t.engine == Containerd {
		return fmt.Errorf("find the config of containerd: %s is a template of k3s or RKE2: %s", named, templateAdvice)
	}
	if k.host.sameFile(named, main) || t.engine == Containerd && k.isTemplateOf(named, main) {
		t.main = named
		return nil
	}
	reads, err := k.reads(*t, main, named)
	switch {
	case err != nil:
		return err
	case reads:
		t.main, t.dropIn = main, cmp.Or(k.config.DropIn, named)
		return nil
	case k.last == nil:
		t.main = named
		return nil
	}
	problem := fmt.Sprintf("the running engine reads %s, and does not read %s", main, named)
	if dir, err := k.host.path(path.Dir(named)); err == nil && !exists(dir) {
		// NVIDIA's manifests mount the folders of the host, and name the paths of these mounts.
		problem = fmt.Sprintf("the host has no folder %s, and the running engine reads %s", path.Dir(named), main)
	}
	return fmt.Errorf("find the config of %s: %s: set --runtime-config (RUNTIME_CONFIG) or --config to a file that the engine reads, or leave it empty",
		t.engine, problem)
}

// templateAdvice says how k3s and RKE2 get the runtimes.
const templateAdvice = "leave --runtime-config (CONTAINERD_CONFIG) or --config empty: the runtimes are added to the folder config-v3.toml.d, " +
	"or by k3s and RKE2 themselves where their containerd is older than 2.1; " +
	`a template of your own must begin with {{ template "base" . }}`

// isTemplateOf reports whether a file is the template of MicroK8s for its main file.
func (k *Keeper) isTemplateOf(named, main string) bool {
	return path.Base(named) == microk8sTemplate && strings.HasSuffix(main, microk8sConfig) &&
		k.host.sameFile(path.Dir(named), path.Dir(main))
}

// reads reports whether an engine with the config file main also reads a file, which does not
// have to exist.
func (k *Keeper) reads(t target, main, file string) (bool, error) {
	switch t.engine {
	case Docker:
		return false, nil
	case CRIO:
		return k.host.sameFile(path.Dir(file), k.crioFolder(t)), nil
	default:
	}
	text, err := k.host.read(main)
	if err != nil {
		return false, err
	}
	if main == k0sConfig && (text == nil || managedByK0s(text)) && path.Dir(file) == path.Dir(k0sDropIn) {
		return true, nil
	}
	t.main, t.dropIn = main, main
	files, err := k.files(t)
	if err != nil {
		return false, err
	}
	docs, err := decodeAll(files)
	for i, doc := range docs {
		if imported(doc, files[i].path, file) {
			return true, nil
		}
	}
	return false, err
}

// defaultMain returns the main config file of an engine that does not run. For containerd, this is the
// first file that exists. If none exists, it is the file of the first distribution whose folder is not
// empty, or else the default of containerd.
func (k *Keeper) defaultMain(engine Name) string {
	switch engine {
	case Docker:
		return dockerConfig
	case CRIO:
		return crioConfig
	default:
	}
	for _, p := range append(distributions(), containerdConfig) {
		if real, err := k.host.path(p); err == nil && exists(real) {
			return p
		}
	}
	i := slices.IndexFunc(distributions(), func(p string) bool {
		real, err := k.host.path(path.Dir(p))
		var entries []fs.DirEntry
		if err == nil {
			entries, err = os.ReadDir(real)
		}
		return err == nil && len(entries) > 0
	})
	if i < 0 {
		return containerdConfig
	}
	return distributions()[i]
}
