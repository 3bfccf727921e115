package observe

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// table is the store of a Reflector. It keeps a compact value of each object that matters, and
// nothing of the others.
type table[T any] struct {
	mu *sync.Mutex
	// compact returns what to keep of an object, and whether to keep it.
	compact func(metav1.Object) (T, bool)
	// equal reports whether a change does not matter.
	equal func(a, b T) bool
	// changed is called after a change that matters, under mu.
	changed func()
	// removed is called when an object is gone, under mu; version is that of the cluster then.
	removed func(value T, version string)

	// rows are never changed, only replaced: states share them.
	rows map[string]*T
	// listed is set once the table has all objects.
	listed bool
}

func newTable[T any](o *Observer, compact func(metav1.Object) (T, bool), equal func(a, b T) bool) *table[T] {
	return &table[T]{
		mu: &o.mu, compact: compact, equal: equal, changed: o.signal, removed: func(T, string) {}, rows: map[string]*T{},
	}
}

// row is what Transformer makes of an object, so that a list of many is never held whole.
type row[T any] struct {
	key   string
	value T
	keep  bool
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (t *table[T]) row(object any) (row[T], error) {
	if r, ok := object.(row[T]); ok {
		return r, nil
	}
	o, ok := object.(metav1.Object)
	if !ok {
		return row[T]{}, fmt.Errorf("a watch delivered a %T", object)
	}
	value, keep := t.compact(o)
	r := row[T]{value: value, keep: keep}
	if keep {
		r.key = key(o)
	}
	return r, nil
}

// Transformer implements cache.TransformingStore.
func (t *table[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return t.row(object) }
}

// Add implements cache.ReflectorStore.
func (t *table[T]) Add(object any) error {
	o, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("a watch delivered a %T", object)
	}
	value, keep := t.compact(o)
	k := key(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	before, had := t.rows[k]
	switch {
	case keep:
		// A change that does not matter can have a new version.
		t.rows[k] = &value
	case had:
		delete(t.rows, k)
	}
	if keep != had || keep && !t.equal(*before, value) {
		t.changed()
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (t *table[T]) Update(object any) error { return t.Add(object) }

// Delete implements cache.ReflectorStore.
func (t *table[T]) Delete(object any) error {
	o, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("a watch delivered a %T", object)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, had := t.rows[key(o)]; had {
		delete(t.rows, key(o))
		t.removed(*before, o.GetResourceVersion())
		t.changed()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (t *table[T]) Replace(objects []any, version string) error {
	rows := map[string]*T{}
	for _, object := range objects {
		r, err := t.row(object)
		if err != nil {
			return err
		}
		if r.keep {
			rows[r.key] = &r.value
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, before := range t.rows {
		if _, ok := rows[k]; !ok {
			t.removed(*before, version)
		}
	}
	t.rows, t.listed = rows, true
	t.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (*table[T]) Resync() error { return nil }
