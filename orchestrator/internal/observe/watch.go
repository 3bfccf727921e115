package observe

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// watchTimeout is the shortest time after which a watch is started again; each lasts up to
	// twice as long, at random.
	watchTimeout = 20 * time.Minute
	// pageSize is the number of objects in a page of a list, for API servers that cannot stream.
	pageSize = 500
)

// source lists and watches the objects of one kind, in one namespace or all.
type source[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// watchInto keeps a table up to date with the objects of a source until ctx ends, and notes
// why that fails for Listed.
func watchInto[L runtime.Object, T any](ctx context.Context, from source[L], t *table[T]) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = t.selector
			objects, err := from.List(ctx, options)
			t.o.note(t.name, err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = t.selector
			w, err := from.Watch(ctx, options)
			t.o.note(t.name, err)
			if err == nil {
				t.o.connected()
			}
			return w, err
		},
	}, nil, t, cache.ReflectorOptions{Name: t.name, TypeDescription: t.name, MinWatchTimeout: watchTimeout})
	r.WatchListPageSize = pageSize
	t.o.running.Go(func() { r.RunWithContext(ctx) })
}

// connected records that a watch has started.
func (o *Observer) connected() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reconnected = true
	o.signal()
}

func (o *Observer) note(name string, err error) {
	// These lead to another list, which says whether all is well.
	if apierrors.IsInvalid(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, context.Canceled) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.errs, name)
		return
	}
	if o.errs[name] == nil {
		o.log.Warn("cannot watch, retrying", "what", name, "err", err)
	}
	o.errs[name] = err
}
