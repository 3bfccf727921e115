package kubetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// object is a stored object with the owners of its fields.
type object struct {
	of  typed.ParseableType
	doc map[string]any
	// managers has the fields that each writer owns, by the writer's key.
	managers fieldpath.ManagedFields
}

// newObject returns an empty object of a type in the schema.
func newObject(kind string) *object {
	parser, err := typed.NewParser(schema)
	if err != nil {
		panic(err) // it is a constant
	}
	return &object{of: parser.Type(kind), doc: map[string]any{}, managers: fieldpath.ManagedFields{}}
}

// writer identifies an owner of fields. For the API server, one manager is several
// owners: for what it applied, for what it updated, and for each subresource.
type writer struct{ manager, operation, subresource string }

func (w writer) key() string { return w.manager + "\n" + w.operation + "\n" + w.subresource }

// version is the API version of all objects: the server converts none.
const version fieldpath.APIVersion = "v1"

// unconverted is a converter between equal versions.
type unconverted struct{}

func (unconverted) Convert(v *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return v, nil
}
func (unconverted) IsMissingVersionError(error) bool { return false }

// write merges config into the object if by applies, and replaces the object if by
// updates.
func (o *object) write(by writer, config map[string]any, force bool) error {
	live, err := o.of.FromUnstructured(o.doc)
	if err != nil {
		return err
	}
	desired, err := o.of.FromUnstructured(config)
	if err != nil {
		return err
	}
	updater := (&merge.UpdaterBuilder{Converter: unconverted{}, ReturnInputOnNoop: true}).BuildUpdater()
	managers := o.managers.Copy()
	if by.operation == "Apply" {
		live, managers, err = updater.Apply(live, desired, version, managers, by.key(), force)
	} else {
		live, managers, err = updater.Update(live, desired, version, managers, by.key())
	}
	if err != nil {
		return err
	}
	disown(managers, by.key())
	doc, _ := live.AsValue().Unstructured().(map[string]any)
	if err := validate(doc); err != nil {
		return err
	}
	o.doc, o.managers = clone(doc), managers
	return nil
}

// disown removes a writer's ownership of the fields that identify an object, which
// have no owner.
func disown(managers fieldpath.ManagedFields, key string) {
	set, has := managers[key]
	if !has {
		return
	}
	unowned := fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"),
		fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
		fieldpath.MakePathOrDie("metadata", "uid"),
	)
	if left := set.Set().Difference(unowned); left.Empty() {
		delete(managers, key)
	} else {
		managers[key] = fieldpath.NewVersionedSet(left, version, set.Applied())
	}
}

// full returns the whole object.
func (o *object) full(version int) map[string]any {
	doc := clone(o.doc)
	metadata, _ := doc["metadata"].(map[string]any)
	metadata["resourceVersion"] = fmt.Sprint(version)
	metadata["managedFields"] = o.managedFields()
	return doc
}

// metadata returns the metadata of the object.
func (o *object) metadata(version int) map[string]any {
	return map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.full(version)["metadata"],
	}
}

func (o *object) managedFields() []any {
	var entries []any
	keys := make([]string, 0, len(o.managers))
	for key := range o.managers {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		of := strings.Split(key, "\n")
		fields, err := o.managers[key].Set().ToJSON()
		if err != nil {
			panic(err) // the library made the set
		}
		entries = append(entries, map[string]any{
			"manager": of[0], "operation": of[1], "subresource": of[2], "apiVersion": o.doc["apiVersion"],
			"fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(fields),
		})
	}
	return entries
}

// clone returns a deep copy.
func clone(doc map[string]any) map[string]any {
	var c map[string]any
	convert(doc, &c)
	return c
}

// convert copies a value into one of another type, by way of JSON.
func convert(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err) // from came from JSON
	}
}
