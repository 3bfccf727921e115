package observe

import (
	"fmt"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// table is the store of a Reflector for objects of type K. It keeps a compact value of each relevant object: a row.
type table[K metav1.Object, T any] struct {
	cache.Store

	o *Observer
	// name is the name of the resource, and selector is a label selector. what names the objects for people.
	name, selector, what string
	// compact returns the compact form of an object, or nil if the object is not relevant.
	compact func(K) *T
	// mu protects the Store against a drop of a row that was just replaced.
	mu sync.Mutex
}

// row is the compact form of an object. Rows are replaced, never changed, because States share their values.
type row[T any] struct {
	// ObjectMeta has the name, the namespace and the version of the object.
	metav1.ObjectMeta
	// value is nil if the object is not relevant.
	value *T
}

func newTable[K metav1.Object, T any](o *Observer, name string, compact func(K) *T) *table[K, T] {
	return &table[K, T]{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), o: o, name: name, what: name, compact: compact}
}

// rows returns the rows of all relevant objects.
func (t *table[K, T]) rows() []*row[T] {
	var all []*row[T]
	for _, r := range t.List() {
		all = append(all, r.(*row[T]))
	}
	return all
}

// value returns the value of an object without a namespace, or nil.
func (t *table[K, T]) value(name string) *T {
	if known, ok, _ := t.GetByKey(name); ok {
		return known.(*row[T]).value
	}
	return nil
}

// drop removes a row that is not relevant any more, unless it was replaced.
func (t *table[K, T]) drop(r *row[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, _, _ := t.Get(r); known == any(r) {
		_ = t.Store.Delete(r)
	}
}

// Transformer implements cache.TransformingStore. With it, the Reflector never holds a long list of whole objects.
func (t *table[K, T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return t.row(object) }
}

func (t *table[K, T]) row(object any) (*row[T], error) {
	if r, ok := object.(*row[T]); ok {
		return r, nil
	}
	in, ok := object.(K)
	if !ok {
		return nil, fmt.Errorf("the API server sent a %T as one of the %s", object, t.name)
	}
	meta := metav1.ObjectMeta{Namespace: in.GetNamespace(), Name: in.GetName(), ResourceVersion: in.GetResourceVersion()}
	return &row[T]{ObjectMeta: meta, value: t.compact(in)}, nil
}

// Add implements cache.ReflectorStore.
func (t *table[K, T]) Add(object any) error { return t.Update(object) }

// Update implements cache.ReflectorStore.
func (t *table[K, T]) Update(object any) error {
	now, err := t.row(object)
	if err != nil {
		return err
	}
	if now.value == nil {
		return t.Delete(now)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known, err := t.Get(now)
	if err == nil {
		err = t.Store.Update(now)
	}
	if !known || !reflect.DeepEqual(before.(*row[T]).value, now.value) {
		t.o.signal()
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (t *table[K, T]) Delete(object any) error {
	_, known, err := t.Get(object)
	if err == nil {
		err = t.Store.Delete(object)
	}
	if known {
		t.o.signal()
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (t *table[K, T]) Replace(objects []any, version string) error {
	var relevant []any
	for _, object := range objects {
		r, err := t.row(object)
		if err != nil {
			return err
		}
		if r.value != nil {
			relevant = append(relevant, r)
		}
	}
	defer t.o.signal()
	return t.Store.Replace(relevant, version)
}
