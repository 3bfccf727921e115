package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
)

const (
	// selector selects the orchestrator's objects.
	selector = render.ManagedBy + "=" + model.FieldManager
	// watchTimeout is the shortest time after which a watch is started again; each lasts up to
	// twice as long, at random.
	watchTimeout = 20 * time.Minute
	// pageSize is the number of objects in a page of a list, for API servers that cannot stream.
	pageSize = 500
	protobuf = "application/vnd.kubernetes.protobuf"
)

// kind is a kind of objects of which the fields matter, in one namespace or all.
type kind struct {
	gvr               schema.GroupVersionResource
	namespace, labels string
	object            runtime.Object
}

// typed watches the objects of a kind.
func (o *Observer) typed(ctx context.Context, k kind, store cache.ReflectorStore) error {
	gv := k.gvr.GroupVersion()
	rc := rest.CopyConfig(o.cfg.Client.REST)
	rc.GroupVersion, rc.APIPath = &gv, "/apis"
	if gv.Group == "" {
		rc.APIPath = "/api"
	}
	rc.ContentType, rc.AcceptContentTypes = protobuf, protobuf+",application/json"
	rc.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(rc)
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.gvr.Resource, err)
	}
	lw := cache.NewListWatchFromClient(client, k.gvr.Resource, k.namespace, fields.Everything())
	reflectInto(ctx, o, source[runtime.Object]{k.gvr.Resource, k.labels, lw.ListWithContextFunc, lw.WatchFuncWithContext, k.object}, store)
	return nil
}

// metadata watches the metadata of the orchestrator's objects in one place.
func (o *Observer) metadata(ctx context.Context, p place, store cache.ReflectorStore) {
	resource := o.cfg.Client.Metadata.Resource(p.gvr).Namespace(p.namespace)
	reflectInto(ctx, o, source[*metav1.PartialObjectMetadataList]{p.gvr.Resource, selector, resource.List, resource.Watch, &metav1.PartialObjectMetadata{}}, store)
}

// source is where objects come from.
type source[L runtime.Object] struct {
	name, labels string
	list         func(context.Context, metav1.ListOptions) (L, error)
	watch        func(context.Context, metav1.ListOptions) (watch.Interface, error)
	object       runtime.Object
}

// reflectInto keeps a store up to date until ctx ends, and notes why that fails for Listed.
func reflectInto[L runtime.Object](ctx context.Context, o *Observer, s source[L], store cache.ReflectorStore) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = s.labels
			objects, err := s.list(ctx, options)
			o.note(s.name, err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = s.labels
			w, err := s.watch(ctx, options)
			o.note(s.name, err)
			if err == nil {
				o.connected()
			}
			return w, err
		},
	}, s.object, store, cache.ReflectorOptions{Name: s.name, MinWatchTimeout: watchTimeout})
	r.WatchListPageSize = pageSize
	o.running.Go(func() { r.RunWithContext(ctx) })
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
		o.cfg.Log.Warn("cannot watch, retrying", "what", name, "err", err)
	}
	o.errs[name] = err
}
