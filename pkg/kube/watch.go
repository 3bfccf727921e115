package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect" // T is the type of the caller, which need not be comparable
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2" //nolint:depguard // turns off the log of the reflector

	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
)

// Watch calls deliver with all selected objects, ordered by namespace and name: once when they are
// known, and again whenever one of them is added, deleted, or changed in a field of T. deliver must
// not change the objects. Watch returns when ctx ends. Until then, it logs failures and retries.
//
// Watch keeps one T for each object, so T should have only the fields that the caller
// needs. It needs the verbs list and watch.
func Watch[T any](ctx context.Context, c *Client, q Query, deliver func([]T)) {
	w := &watcher[T]{client: c, query: q, deliver: deliver}
	defer w.recordResult(nil)
	from := pagedListWatch{&cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}}
	r := cache.NewReflectorWithOptions(from, nil, w, cache.ReflectorOptions{Name: q.Resource})
	r.RunWithContext(klog.NewContext(ctx, klog.Logger{})) // watcher logs failures
}

// pagedListWatch makes a reflector list in pages. A stream (WatchList) would keep the whole list in
// memory until its end.
type pagedListWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported tells the reflector not to ask for a stream.
func (pagedListWatch) IsWatchListSemanticsUnSupported() bool { return true }

// watcher gives objects to a reflector as items, and is the reflector's store.
type watcher[T any] struct {
	client  *Client
	query   Query
	deliver func([]T)
	// objects holds the selected objects by namespace and name. It is nil until they are known.
	objects map[string]T
}

// item is a T with the part of its metadata that a reflector reads.
type item[T any] struct {
	metav1.PartialObjectMetadata
	object T
}

// UnmarshalJSON decodes an object.
func (i *item[T]) UnmarshalJSON(data []byte) error {
	var of struct {
		Metadata struct {
			Name            string `json:"name"`
			Namespace       string `json:"namespace"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := errors.Join(json.Unmarshal(data, &of), json.Unmarshal(data, &i.object)); err != nil {
		return fmt.Errorf("decode an object: %w", err)
	}
	i.Name, i.Namespace, i.ResourceVersion = of.Metadata.Name, of.Metadata.Namespace, of.Metadata.ResourceVersion
	return nil
}

func (w *watcher[T]) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	items, version, err := list[item[T]](ctx, w.client, w.query)
	if err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	all := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for i := range items {
		all.Items = append(all.Items, runtime.RawExtension{Object: &items[i]})
	}
	return all, nil
}

func (w *watcher[T]) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	r := w.client.query(w.query, asMetadata).SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.SchemeGroupVersion)
	streaming, stop := context.WithCancelCause(ctx)
	silent := time.AfterFunc(answerLimit, func() { stop(errSilent) })
	body, err := r.Stream(streaming)
	if err != nil {
		if !silent.Stop() {
			err = errSilent
		}
		stop(nil)
		return nil, w.failed(ctx, "watch", explain(err))
	}
	silent.Stop()
	w.recordResult(nil)
	limit := &limitedBody{ReadCloser: body}
	s := &stream[T]{watcher: w, ctx: streaming, stop: stop, body: limit, json: json.NewDecoder(limit)}
	return watch.NewStreamWatcher(s, apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

var errSilent = errors.New("the API server does not answer within " + answerLimit.String())

// failed records and logs a failure. It returns after the time that the API server asks to wait.
func (w *watcher[T]) failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	err = fmt.Errorf("%s %s: %w", verb, w.query.Resource, err)
	w.recordResult(err)
	w.client.cfg.Log.Warn("cannot watch objects, retrying", "resource", w.query.Resource, "name", w.query.Name, "err", err)
	pace.Pause(ctx, RetryAfter(err))
	return err
}

// recordResult records that the watch works, or its error.
func (w *watcher[T]) recordResult(err error) { w.client.failing.Set(w, err, time.Now()) }

// Add stores an object, and delivers all objects if its T is new.
func (w *watcher[T]) Add(object any) error {
	i, key, err := itemOf[T](object)
	if err != nil {
		return err
	}
	was, known := w.objects[key]
	w.objects[key] = i.object
	if !known || !reflect.DeepEqual(was, i.object) {
		w.notify()
	}
	return nil
}

// Update is Add.
func (w *watcher[T]) Update(object any) error { return w.Add(object) }

// Delete removes an object, and delivers the others.
func (w *watcher[T]) Delete(object any) error {
	_, key, err := itemOf[T](object)
	if err != nil {
		return err
	}
	if _, known := w.objects[key]; known {
		delete(w.objects, key)
		w.notify()
	}
	return nil
}

// Replace replaces all objects by a list, and delivers the list if it differs.
func (w *watcher[T]) Replace(list []any, _ string) error {
	was := w.objects
	w.objects = make(map[string]T, len(list))
	for _, object := range list {
		i, key, err := itemOf[T](object)
		if err != nil {
			return err
		}
		w.objects[key] = i.object
	}
	if was == nil || !reflect.DeepEqual(was, w.objects) {
		w.notify()
	}
	return nil
}

// Resync does nothing: the reflector never asks for it.
func (w *watcher[T]) Resync() error { return nil }

func itemOf[T any](object any) (i *item[T], key string, err error) {
	i, is := object.(*item[T])
	if !is {
		return nil, "", fmt.Errorf("the reflector delivers a %T", object)
	}
	return i, i.Namespace + "/" + i.Name, nil
}

func (w *watcher[T]) notify() {
	all := make([]T, 0, len(w.objects))
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		all = append(all, w.objects[key])
	}
	if w.query.Name != "" && len(all) == 0 {
		w.client.cfg.Log.Warn("watched object does not exist, waiting for it", "resource", w.query.Resource, "name", w.query.Name)
	}
	w.deliver(all)
}
