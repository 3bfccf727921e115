package model

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"outrigger.dev/sim/models"
)

// Default is the name of the model of a node without a choice.
const Default = "a100-40"

// Names returns the names of the products that the simulator knows.
func Names() []string {
	files, err := fs.Glob(models.Files, "*.yaml")
	if err != nil {
		panic(err) // the pattern is constant
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".yaml")
	}
	return files
}

// Data returns the data file of a product.
func Data(name string) ([]byte, error) { return models.Files.ReadFile(name + ".yaml") }

// Builtin returns the product with a name of Names.
func Builtin(name string) (Model, error) {
	data, err := Data(name)
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	return Parse(name+".yaml", data)
}

// Find returns a model. ref is an argument of FindBuiltin, or the path of a file, which has a slash or ends with
// .yaml.
func Find(ref string) (Model, error) {
	if !isFile(ref) {
		return FindBuiltin(ref)
	}
	data, err := os.ReadFile(ref) // the user names the file
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	return Parse(ref, data)
}

// FindBuiltin returns a product that the simulator knows. ref is a name, an alias, or the name of the product in NVML
// or in the label nvidia.com/gpu.product.
func FindBuiltin(ref string) (Model, error) {
	simple := simplify(ref)
	if slices.Contains(Names(), simple) {
		return Builtin(simple)
	}
	for _, name := range Names() {
		m, err := Builtin(name)
		if err != nil || m.isCalled(simple) {
			return m, err
		}
	}
	return Model{}, fmt.Errorf("model %q is unknown: want one of %s, or, on the command line, the path of a file such as ./model.yaml", ref, strings.Join(Names(), ", "))
}

func isFile(ref string) bool {
	return strings.Contains(ref, "/") || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml")
}

func (m Model) isCalled(simple string) bool {
	return slices.ContainsFunc(append([]string{m.Product}, m.Aliases...), func(name string) bool { return simplify(name) == simple })
}

// simplify removes the differences between the forms of a product's name.
func simplify(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), " ", "-")
	return strings.TrimPrefix(strings.TrimPrefix(name, "nvidia-"), "tesla-")
}
