package observe

import (
	"reflect" // DeepEqual: the values have slices, maps or pointers

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// table is the store of a Reflector. It keeps a compact value of each relevant object.
type table[T any] struct {
	o *Observer
	// name is the name of the resource, and selector is a label selector.
	name, selector string
	// compact returns the compact form of an object, and false if the object is not relevant.
	compact func(metav1.Object) (T, bool)
	// equal reports whether two values are equal for a pass.
	equal func(a, b T) bool
	// carry copies fields from the previous value to the current value, with mu held. It may be
	// nil.
	carry func(before, now *T)
	// removed is called after an object was deleted, with mu held. version is the resourceVersion
	// of the deletion.
	removed func(value T, version string)

	// The values in rows are replaced, never changed, because States share them.
	rows map[string]*T
	// complete is set once the table has all objects.
	complete bool
}

// equal reports whether two values are deeply equal. It uses reflection, because the values of the
// tables have slices and maps.
func equal[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

func newTable[T any](o *Observer, name string, compact func(metav1.Object) (T, bool), equal func(a, b T) bool) *table[T] {
	return &table[T]{o: o, name: name, compact: compact, equal: equal, removed: func(T, string) {}, rows: map[string]*T{}}
}

// list is a table with values of any type.
type list interface{ listed() bool }

// row is the result of Transformer. With it, the Reflector never holds a long list of whole
// objects. value is nil if the object is not relevant.
type row[T any] struct {
	key, version string
	value        *T
}

func (t *table[T]) row(object any) (row[T], error) {
	if r, ok := object.(row[T]); ok {
		return r, nil
	}
	in, err := meta.Accessor(object)
	if err != nil {
		return row[T]{}, err
	}
	r := row[T]{key: in.GetNamespace() + "/" + in.GetName(), version: in.GetResourceVersion()}
	if value, keep := t.compact(in); keep {
		r.value = &value
	}
	return r, nil
}

// Transformer implements cache.TransformingStore.
func (t *table[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return t.row(object) }
}

// Add implements cache.ReflectorStore.
func (t *table[T]) Add(object any) error {
	r, err := t.row(object)
	if err == nil {
		t.put(r)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (t *table[T]) Update(object any) error { return t.Add(object) }

// Delete implements cache.ReflectorStore.
func (t *table[T]) Delete(object any) error {
	r, err := t.row(object)
	if err == nil {
		r.value = nil
		t.put(r)
	}
	return err
}

func (t *table[T]) put(r row[T]) {
	t.o.mu.Lock()
	defer t.o.mu.Unlock()
	before := t.rows[r.key]
	t.keep(before, r.value)
	switch {
	case r.value != nil:
		// Store the value even if it is equal, because its version may be new.
		t.rows[r.key] = r.value
	case before != nil:
		delete(t.rows, r.key)
		t.removed(*before, r.version)
	}
	if (before == nil) != (r.value == nil) || before != nil && !t.equal(*before, *r.value) {
		t.o.signal()
	}
}

// keep carries values from one version of an object to the next one.
func (t *table[T]) keep(before, now *T) {
	if t.carry != nil && before != nil && now != nil {
		t.carry(before, now)
	}
}

// Replace implements cache.ReflectorStore.
func (t *table[T]) Replace(objects []any, version string) error {
	rows := map[string]*T{}
	for _, object := range objects {
		r, err := t.row(object)
		if err != nil {
			return err
		}
		if r.value != nil {
			rows[r.key] = r.value
		}
	}
	t.o.mu.Lock()
	defer t.o.mu.Unlock()
	for key, before := range t.rows {
		t.keep(before, rows[key])
		if rows[key] == nil {
			t.removed(*before, version)
		}
	}
	t.rows, t.complete = rows, true
	t.o.signal()
	return nil
}

// Resync implements cache.ReflectorStore.
func (*table[T]) Resync() error { return nil }

// listed reports whether the table has all objects.
func (t *table[T]) listed() bool { return t.complete }
