package featurediscovery

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
)

// node has the labels and conditions that the agent has published.
type node struct {
	Labels     map[string]string
	Conditions []condition
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// object is the part of a Node object that this package reads.
type object struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// output is a kind of destination for the labels.
type output struct {
	// name is the name in the table.
	name string
	// open creates a new, empty destination.
	open func(b *Bench) (*destination, error)
}

func outputs() []output { return []output{{"features file", openFile}, onNode()} }

func onNode() output { return output{"Node object", openNode} }

// destination is an open output.
type destination struct {
	// args and env configure the agent to publish to the destination.
	args, env []string
	// watch delivers the published state after each change until ctx ends, even if it is
	// incomplete.
	watch func(ctx context.Context, deliver func(node)) error
	// api is the fake API server, or nil.
	api *api
}

func (p *destination) close() {
	if p.api != nil {
		p.api.CloseClientConnections()
		p.api.Close()
	}
}

func openFile(b *Bench) (*destination, error) {
	path, err := b.features()
	if err != nil {
		return nil, err
	}
	return &destination{
		args: []string{"--publish", "nfd-file", "--output-file", path},
		watch: func(ctx context.Context, deliver func(node)) error {
			hostfs.Watch(ctx, slog.New(slog.DiscardHandler), func() {
				if data, err := os.ReadFile(path); err == nil {
					deliver(parse(data))
				}
			}, path)
			return nil
		},
	}, nil
}

// parse returns the labels of a features file.
func parse(data []byte) node {
	labels := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			labels[key] = value
		}
	}
	return node{Labels: labels}
}

// nodeName is the name of the Node.
const nodeName = "bench"

// openNode starts an API server, and writes a pod's credentials for it to the folder of the service
// account.
func openNode(*Bench) (*destination, error) {
	dir, err := secrets()
	if err != nil {
		return nil, err
	}
	p := &destination{api: startAPI()}
	if err := p.join(dir); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// secrets creates the folder of a pod's token.
func secrets() (string, error) {
	dir := kube.ServiceAccountDir
	// /run belongs to the simulated node, so this does not change the machine.
	if real, err := filepath.EvalSymlinks("/var/run"); err != nil || real != "/run" {
		return "", fmt.Errorf("create %s: /var/run is not a link to /run on this machine (error %w)", dir, err)
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// join configures the destination for the API server with the credentials in dir.
func (p *destination) join(dir string) error {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.api.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte("token"), "ca.crt": authority} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("write the pod's credentials: %w", err)
		}
	}
	at, err := url.Parse(p.api.URL)
	if err != nil {
		return err
	}
	watcher, err := kube.New(kube.Config{Server: p.api.URL, Dir: dir, Node: nodeName, Agent: "bench", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	p.args = []string{"--publish", "node", "--ready-chain", "driver"}
	p.env = []string{"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port(), "NODE_NAME=" + nodeName}
	p.watch = func(ctx context.Context, deliver func(node)) error {
		kube.Watch(ctx, watcher, kube.Query{Object: watcher.Node()}, func(nodes []object) {
			for _, o := range nodes {
				deliver(node{Labels: o.Metadata.Labels, Conditions: o.Status.Conditions})
			}
		})
		return nil
	}
	return nil
}
