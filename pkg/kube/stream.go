package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// stream decodes the events of a watch as items. It omits fields that T does not have. The size of
// each event is limited.
type stream[T any] struct {
	*watcher[T]
	ctx  context.Context //nolint:containedctx // the context of the request
	stop context.CancelCauseFunc
	body *limitedBody
	json *json.Decoder
}

// Decode returns the next event.
func (s *stream[T]) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	s.body.left = maxValue
	if err := s.json.Decode(&event); err != nil {
		return "", nil, s.ended(err)
	}
	if event.Type == watch.Error {
		status := &metav1.Status{}
		if err := json.Unmarshal(event.Object, status); err != nil {
			return "", nil, s.ended(err)
		}
		_ = s.ended(explain(apierrors.FromObject(status)))
		return event.Type, status, nil
	}
	i := &item[T]{}
	if err := json.Unmarshal(event.Object, i); err != nil {
		return "", nil, s.ended(err)
	}
	return event.Type, i, nil
}

// ended records the error that ends the watch, unless the watch ends regularly.
func (s *stream[T]) ended(err error) error {
	if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
		return io.EOF
	}
	return s.failed(s.ctx, "watch", err)
}

// Close ends the watch.
func (s *stream[T]) Close() {
	s.stop(nil)
	_ = s.body.Close()
}
