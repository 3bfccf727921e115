// Package cluster reads and writes objects of any kind in a cluster, through client-go's dynamic
// client. It does not change objects that others manage.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/orchestrator/internal/model"
)

// The limits of the request rate. Requests are sent one after another, so only a faulty loop
// reaches them.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// discoveryTimeout is the time limit of a request for the version or the kinds of the API server.
// Other requests have only the context of their caller.
const discoveryTimeout = 30 * time.Second

const protobuf = "application/vnd.kubernetes.protobuf"

// Client is a client of one cluster. It is safe for concurrent use.
type Client struct {
	// REST is the config of the connection, for watches.
	REST     *rest.Config
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Core and Apps read kinds with many objects, in protobuf. They are not typed clients, because
	// the methods of typed clients would make the program larger.
	Core, Apps rest.Interface

	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper

	// missing limits how often the kinds are read again because of a missing kind.
	missing rate.Sometimes
}

// refreshInterval is how long a kind counts as missing before the API server is asked for it again.
// Refresh asks at once.
const refreshInterval = 30 * time.Second

// Kubeconfig selects a cluster.
type Kubeconfig struct {
	// Path is a path, or a list of paths as in $KUBECONFIG. If it is empty, $KUBECONFIG counts, then ~/.kube/config, then
	// the service account of the pod.
	Path string
	// Context is the name of a context. If it is empty, the current context counts.
	Context string
}

// Open returns a client of the cluster that a kubeconfig describes. agent is the name of the program. Open does not
// connect.
func Open(from Kubeconfig, agent string) (*Client, error) {
	config, rules := from.load()
	rc, err := config.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, noClusterError(rules)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w; set --kubeconfig", err)
	}
	rc.UserAgent, rc.QPS, rc.Burst = agent, requestsPerSecond, requestsAtOnce
	rc.WarningHandler = rest.NoWarnings{}
	return New(rc)
}

func (k Kubeconfig) load() (clientcmd.ClientConfig, *clientcmd.ClientConfigLoadingRules) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if files := filepath.SplitList(k.Path); len(files) > 1 {
		rules.Precedence, rules.WarnIfAllMissing = files, false // noClusterError names the missing files
	} else {
		rules.ExplicitPath = k.Path
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.Context}), rules
}

// Namespace returns the namespace of the context, or "default".
func (k Kubeconfig) Namespace() string {
	config, _ := k.load()
	namespace, _, err := config.Namespace()
	if err != nil || namespace == "" {
		return "default"
	}
	return namespace
}

// noClusterError returns the error for rules whose files name no cluster.
func noClusterError(rules *clientcmd.ClientConfigLoadingRules) error {
	files := rules.Precedence
	if rules.ExplicitPath != "" {
		files = []string{rules.ExplicitPath}
	}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return fmt.Errorf("read kubeconfig: %s names no cluster, and this process does not run in a pod; set --kubeconfig", file)
		}
	}
	return fmt.Errorf("no cluster is known: this process does not run in a pod, and there is no %s; set --kubeconfig", strings.Join(files, ", "))
}

// New returns a client that connects as rc describes.
func New(rc *rest.Config) (*Client, error) {
	c := &Client{REST: rc, missing: rate.Sometimes{Interval: refreshInterval}}
	http, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	typed := rest.CopyConfig(rc)
	typed.ContentType, typed.AcceptContentTypes = protobuf, protobuf+",application/json"
	var errs [2]error
	c.Dynamic, errs[0] = dynamic.NewForConfigAndClient(rc, http)
	c.Metadata, errs[1] = metadata.NewForConfigAndClient(rc, http)
	core, noCore := corev1.NewForConfigAndClient(typed, http)
	apps, noApps := appsv1.NewForConfigAndClient(typed, http)
	brief := *http
	brief.Timeout = discoveryTimeout
	kinds, noKinds := discovery.NewDiscoveryClientForConfigAndClient(rc, &brief)
	if err := errors.Join(errs[0], errs[1], noCore, noApps, noKinds); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	c.Core, c.Apps = core.RESTClient(), apps.RESTClient()
	c.discovery = memory.NewMemCacheClient(kinds)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	return c, nil
}

// Version returns the version of the API server: "v1.36.3". The error is an UnreachableError if the
// API server does not answer.
func (c *Client) Version(ctx context.Context) (string, error) {
	v, err := discovery.ToServerVersionInterfaceWithContext(c.discovery).ServerVersionWithContext(ctx)
	if err != nil {
		return "", Explain(c.REST, fmt.Errorf("ask the API server for its version: %w", err))
	}
	return v.GitVersion, nil
}

// Explain returns an UnreachableError for the error of a request without an answer, and adds the fix
// to the error of a missing permission. It returns any other error unchanged.
func Explain(rc *rest.Config, err error) error {
	if failed, is := errors.AsType[*url.Error](err); is {
		return &UnreachableError{Server: rc.Host, Cause: failed.Err}
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("API server %s: %w; use an account with the ClusterRole of the chart, in the version of this program", rc.Host, err)
	}
	return err
}

// Refresh drops the cached kinds of the API server. Call it after a CRD was applied.
func (c *Client) Refresh() { c.mapper.Reset() }

// Mapping returns the resource of the object's kind, and whether the resource is namespaced. The
// error is a NoKindError if the API server does not have the kind.
func (c *Client) Mapping(ctx context.Context, r model.Ref) (schema.GroupVersionResource, bool, error) {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("read apiVersion of %s: %w", r, err)
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
	m, err := c.mapper.RESTMappingWithContext(ctx, kind, gv.Version)
	if meta.IsNoMatchError(err) {
		c.missing.Do(func() {
			c.Refresh()
			m, err = c.mapper.RESTMappingWithContext(ctx, kind, gv.Version)
		})
	}
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionResource{}, false, &NoKindError{Ref: r}
	}
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("look up kind %s: %w", r.Kind, err)
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// UnreachableError says that no API server answers at an address.
type UnreachableError struct {
	Server string
	Cause  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("reach the API server %s: %v; check that it runs, that this process can reach it, and that the kubeconfig is of the right cluster, or set --kubeconfig", e.Server, e.Cause)
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// NoKindError says that the API server does not have the kind of an object.
type NoKindError struct{ Ref model.Ref }

func (e *NoKindError) Error() string {
	return fmt.Sprintf("%s: the cluster has no kind %s of %s; install its CRD, or turn off the value that asks for it", e.Ref, e.Ref.Kind, e.Ref.APIVersion)
}

// IsNoKind reports whether an error is a NoKindError.
func IsNoKind(err error) bool {
	_, is := errors.AsType[*NoKindError](err)
	return is
}
