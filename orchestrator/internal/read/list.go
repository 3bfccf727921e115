package read

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// pageSize is the number of objects in a page of a list. With pages, the memory of a list depends on the
// trimmed objects. A list with resourceVersion=0 would ignore the page size.
const pageSize = 500

// page is a list of the API server.
type page interface {
	runtime.Object
	metav1.ListInterface
}

// query selects the objects of a list.
type query struct {
	group               rest.Interface
	resource, namespace string
	labels, fields      string
}

// String returns the query for messages: "pods of the namespace team-a".
func (q query) String() string {
	if q.namespace == "" {
		return q.resource
	}
	return q.resource + " of the namespace " + q.namespace
}

// each calls do for each page of a list. The page is valid until do returns.
func each[L page](ctx context.Context, q query, newPage func() L, do func(L)) error {
	options := metav1.ListOptions{LabelSelector: q.labels, FieldSelector: q.fields, Limit: pageSize}
	for {
		list := newPage()
		err := q.group.Get().Namespace(q.namespace).Resource(q.resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
		if err != nil {
			return fmt.Errorf("list %s: %w", q, err)
		}
		do(list)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// pods calls do for each pod of a query.
func (r *reader) pods(ctx context.Context, q query, do func(*corev1.Pod)) error {
	q.group, q.resource = r.client.Core, "pods"
	return each(ctx, q, func() *corev1.PodList { return &corev1.PodList{} }, func(l *corev1.PodList) {
		for i := range l.Items {
			do(&l.Items[i])
		}
	})
}
