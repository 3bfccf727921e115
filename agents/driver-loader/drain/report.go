package drain

import (
	"encoding/json"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/text"
)

// maxText is the most bytes of one explanation.
const maxText = 1024

// reporter writes lines of JSON. It says of a pod once what stays the same.
type reporter struct {
	mu   sync.Mutex
	out  *json.Encoder
	last map[string]eviction.Line
}

func newReporter(out io.Writer) *reporter {
	return &reporter{out: json.NewEncoder(out), last: map[string]eviction.Line{}}
}

func (r *reporter) write(l eviction.Line) {
	l.Text = text.Cut(text.Printable(l.Text), maxText)
	r.mu.Lock()
	defer r.mu.Unlock()
	// An eviction is asked for again after each rejection.
	was := r.last[l.Pod]
	if was == l || l.Event == eviction.Evicting && was.Event == eviction.Blocked {
		return
	}
	r.last[l.Pod] = l
	_ = r.out.Encode(l) //nolint:errchkjson // an agent that is gone
}

func (r *reporter) line(event eviction.Event, pod corev1.Pod, why string) {
	r.write(eviction.Line{Event: event, Pod: pod.Namespace + "/" + pod.Name, Text: why})
}

func (r *reporter) started(pod *corev1.Pod, _ bool) { r.line(eviction.Evicting, *pod, "") }

func (r *reporter) finished(pod *corev1.Pod, _ bool, err error) {
	if err != nil {
		r.line(eviction.Failed, *pod, err.Error())
		return
	}
	r.line(eviction.Evicted, *pod, "")
}

func (r *reporter) rejected(namespace, pod string, err error) {
	name, why := budget(err)
	r.write(eviction.Line{Event: eviction.Blocked, Pod: namespace + "/" + pod, Budget: name, Text: why})
}
