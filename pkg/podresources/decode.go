package podresources

import (
	"errors"
	"fmt"
	"iter"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// pods yields the pods of an answer. A pod that cannot be decoded ends it, with an error.
type pods = iter.Seq2[*kubelet.PodResources, error]

// reader is the target of a request: read receives the pods of the answer.
type reader struct {
	read func(pods) error
	// err is the error of read. gRPC converts it to text.
	err error
}

// codec decodes an answer pod by pod. A whole decoded answer takes up to ten times the memory of
// its message.
type codec struct{ encoding.CodecV2 }

// Unmarshal passes the pods of a ListPodResourcesResponse to a reader.
func (codec) Unmarshal(data mem.BufferSlice, into any) error {
	r, ok := into.(*reader)
	if !ok {
		return fmt.Errorf("unmarshal into a %T", into)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	r.err = r.read(decode(buffer.ReadOnlyData()))
	return r.err
}

// podsField is the number of the field pod_resources of ListPodResourcesResponse.
const podsField = 1

// decode yields the pods of a serialized ListPodResourcesResponse.
func decode(message []byte) pods {
	return func(yield func(*kubelet.PodResources, error) bool) {
		for len(message) > 0 {
			number, kind, n := protowire.ConsumeTag(message)
			size := protowire.ConsumeFieldValue(number, kind, message[max(n, 0):])
			if n < 0 || size < 0 {
				yield(nil, errInvalid)
				return
			}
			value := message[n : n+size]
			message = message[n+size:]
			if number != podsField || kind != protowire.BytesType {
				continue // a later version of the API
			}
			pod := &kubelet.PodResources{}
			text, _ := protowire.ConsumeBytes(value)
			if err := proto.Unmarshal(text, pod); err != nil {
				yield(nil, errors.Join(errInvalid, err))
				return
			}
			if !yield(pod, nil) {
				return
			}
		}
	}
}

var errInvalid = errors.New("the answer is no list of pods")
