package observe

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// watchTimeout is the minimum duration of a watch. The Reflector ends each watch after one to
	// two times this duration, at random.
	watchTimeout = 20 * time.Minute
	// pageSize is the number of objects in a page of a list, for API servers that cannot stream.
	pageSize = 500
)

// watchTyped calls watchInto for the objects of a typed client in one namespace, or in all
// namespaces.
func watchTyped[T any](ctx context.Context, t *table[T], group rest.Interface, namespace string) {
	from := cache.NewListWatchFromClient(group, t.name, namespace, fields.Everything())
	watchInto(ctx, t, from.ListWithContextFunc, from.WatchFuncWithContext)
}

// watchInto keeps a table up to date through list and watch until ctx ends. Listed returns their
// errors.
func watchInto[L runtime.Object, T any](ctx context.Context, t *table[T],
	list func(context.Context, metav1.ListOptions) (L, error), watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = t.selector
			objects, err := list(ctx, options)
			t.o.recordError(t.name, err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = t.selector
			w, err := watches(ctx, options)
			t.o.recordError(t.name, err)
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

func (o *Observer) recordError(name string, err error) {
	// After these errors, the Reflector lists the objects again. That list succeeds or returns
	// another error.
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
