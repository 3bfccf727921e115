package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// noConfigMap is the value of --configmap-data if no ConfigMap is set.
const noConfigMap = "none"

// configMapLimit is how long the API server may take to answer with the list.
const configMapLimit = 5 * time.Second

// list locates the list of metrics.
type list struct {
	path   string
	strict bool
	// builtIn is used if there is no file.
	builtIn []byte
	log     *slog.Logger
	// configMap is read in preference to path if api is not nil.
	configMap kube.Object
	api       *cluster.API
	// changed has a signal when the list is to be read again.
	changed chan struct{}
	// last is the content that was read last, or nil.
	last []byte
}

// openList returns the list that the flags select, and reads it into the options.
func (s *settings) openList(ctx context.Context, log *slog.Logger) (l list, err error) {
	l = list{path: s.collectors, strict: s.strict, builtIn: counters.Default, log: log, changed: make(chan struct{}, 1)}
	if s.options.Names != exposition.Spelled {
		l.builtIn = slices.Concat(counters.Default, []byte(counters.Default47))
	}
	if s.configMap != noConfigMap && s.configMap != "" {
		namespace, object, _ := strings.Cut(s.configMap, ":")
		l.configMap = kube.Object{API: "v1", Namespace: namespace, Resource: "configmaps", Name: object}
		if l.api, err = s.cluster.Open(name, log); errors.Is(err, kube.ErrNotInCluster) {
			log.Warn("cannot read the list of metrics from the ConfigMap, using the list in the file", "err", err)
		} else if err != nil {
			return l, err
		}
	}
	s.options.Metrics, _, err = l.read(ctx)
	return l, err
}

// read reads the list. If the list is equal to the list that was read last, changed is false, and there are no metrics.
func (l *list) read(ctx context.Context) (metrics []counters.Metric, changed bool, err error) {
	data, place, err := l.load(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("flag --collectors: %w: set it to a file with a list of metrics", err)
	}
	if l.last != nil && bytes.Equal(data, l.last) {
		return nil, false, nil
	}
	l.last = append([]byte{}, data...)
	metrics, err = l.parse(data, place)
	return metrics, true, err
}

// parse returns the metrics of a list. It logs metrics that cannot be served, and leaves them out.
func (l *list) parse(data []byte, place string) ([]counters.Metric, error) {
	metrics, problems, err := counters.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read the list of metrics %s: %w", place, err)
	}
	for _, p := range problems {
		l.log.Warn("cannot serve a metric of the list, leaving it out", "list", place, "line", p.Line, "reason", p.Text)
	}
	if l.strict && len(problems) > 0 {
		return nil, fmt.Errorf("read the list of metrics %s: %w (and --strict is set)", place, problems[0])
	}
	return metrics, nil
}

// load returns the content of the list, and where it was found.
func (l *list) load(ctx context.Context) (data []byte, place string, err error) {
	if l.api != nil {
		text, err := l.readConfigMap(ctx)
		if err == nil {
			return []byte(text), "of ConfigMap " + l.configMap.Namespace + "/" + l.configMap.Name, nil
		}
		l.log.Warn("cannot read the list of metrics from the ConfigMap, using the list in the file", "err", err)
	}
	data, err = hostfs.ReadFile(l.path, counters.Limit)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(l.path) == filepath.Dir(listFile) {
		data, err = l.builtIn, nil
	}
	return data, l.path, err
}

func (l *list) readConfigMap(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, configMapLimit)
	defer cancel()
	var object struct {
		Data map[string]string `json:"data"`
	}
	if err := l.api.Get(ctx, l.configMap, &object); err != nil {
		return "", err
	}
	text, ok := object.Data["metrics"]
	if !ok {
		return "", fmt.Errorf("ConfigMap %s/%s has no key metrics", l.configMap.Namespace, l.configMap.Name)
	}
	return text, nil
}

// reload makes follow read the list again. It does not block.
func (l *list) reload() { pace.Signal(l.changed) }

// follow calls configure with the list after each change since it was read, until ctx ends. It reads the list when its
// file changes, and after each reload. If the new list is invalid, the previous one stays in use.
func (l *list) follow(ctx context.Context, configure func([]counters.Metric)) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { hostfs.Watch(ctx, l.log, l.reload, l.path) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
		metrics, changed, err := l.read(ctx)
		if err != nil {
			l.log.Error("new list of metrics rejected, keeping the previous one", "err", err)
		} else if changed {
			configure(metrics)
		}
	}
}
