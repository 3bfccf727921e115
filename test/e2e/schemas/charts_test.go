// Package schemas_test validates the charts and the manifests with kubeconform.
package schemas_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"

	"outrigger.dev/test/e2e/schemas"
	"outrigger.dev/test/e2e/stack"
)

// TestChartsAndManifests validates what each chart renders, with its default values and
// with each file of values that its golden files are made of, and the manifests for
// kubectl apply.
func TestChartsAndManifests(t *testing.T) {
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	versions, err := schemas.Versions()
	if err != nil {
		t.Fatal(err)
	}
	checks := newChecks(t, root, versions)
	folder := filepath.Join(root, "charts")
	for _, r := range releases(t, folder) {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			versions := supported(t, folder, r.chart, versions)
			if r.enables("draPlugin") {
				versions = supported(t, folder, "dra-plugin", versions)
			}
			rendered, err := r.renderAll(versions)
			if err != nil {
				t.Fatal(err)
			}
			for text, versions := range rendered {
				checks.validate(t, r.name(), text, versions)
			}
		})
	}
	manifests, err := filepath.Glob(filepath.Join(root, "deployments/static/*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("find manifests: %v, %v", manifests, err)
	}
	for _, manifest := range manifests {
		text, err := os.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(manifest)
		checks.validate(t, name, string(text), supported(t, folder, strings.TrimSuffix(name, ".yaml"), versions))
	}
}

// customResources returns the CustomResourceDefinitions of the repository.
func customResources(t *testing.T, root string) [][]byte {
	t.Helper()
	var found [][]byte
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "templates", "testdata"}, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || filepath.Ext(path) != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte("kind: CustomResourceDefinition\n")) {
			found = append(found, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checks are those of the versions of Kubernetes.
type checks map[string]*check

// newChecks returns the checks of versions, which know the CustomResourceDefinitions of the repository.
func newChecks(t *testing.T, root string, versions []string) checks {
	t.Helper()
	all, custom := checks{}, customResources(t, root)
	for _, version := range versions {
		all[version] = newCheck(t, version, custom...)
	}
	return all
}

// validate reports each object of a text that is not valid in one of the versions.
func (c checks) validate(t *testing.T, name, text string, versions []string) {
	t.Helper()
	all := objects(name, text)
	if len(all) == 0 {
		t.Errorf("%s has no objects", name)
	}
	for _, object := range all {
		for _, version := range versions {
			if err := c[version].validate(object); err != nil {
				t.Errorf("%s on Kubernetes %s: %v\n%s", name, version, err, object.Bytes)
			}
		}
	}
}

// objects returns the objects of a text, those of a List by themselves.
func objects(name, text string) []resource.Resource {
	var all []resource.Resource
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		list := resource.Resource{Path: name, Bytes: []byte(document)}
		all = append(all, list.Resources()...)
	}
	return all
}

// check validates objects for a version of Kubernetes.
type check struct {
	validator validator.Validator
	// valid has the objects that were valid before.
	valid sync.Map
}

// newCheck returns a check that knows the kinds of CustomResourceDefinitions, too.
func newCheck(t *testing.T, version string, custom ...[]byte) *check {
	t.Helper()
	definitions, err := schemas.Load(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range custom {
		if err := definitions.Define(definition); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := definitions.Write(dir); err != nil {
		t.Fatal(err)
	}
	v, err := validator.New([]string{filepath.Join(dir, schemas.Template)}, validator.Opts{KubernetesVersion: strings.TrimPrefix(version, "v"), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return &check{validator: v}
}

// validate returns what is wrong with an object; a comment alone is right.
func (c *check) validate(object resource.Resource) error {
	if _, ok := c.valid.Load(string(object.Bytes)); ok {
		return nil
	}
	result := c.validator.ValidateResource(object)
	if result.Status != validator.Valid && result.Status != validator.Empty {
		return result.Err
	}
	c.valid.Store(string(object.Bytes), true)
	return nil
}
