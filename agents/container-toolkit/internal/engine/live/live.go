// Package live asks running container engines for their loaded config. It is separate from
// package engine because it links an HTTP client, which tools on the host do not need.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

// answerLimit limits the time of an answer, maxAnswer its size in bytes.
const (
	answerLimit = 5 * time.Second
	maxAnswer   = 16 << 20
)

// Ask returns the loaded config of the engine that listens on a socket. It is an engine.Ask.
func Ask(ctx context.Context, name engine.Name, socket string) (engine.Live, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	switch name {
	case engine.Docker:
		return askDocker(ctx, socket)
	case engine.CRIO:
		return askCRIO(ctx, socket)
	default:
		return askContainerd(ctx, socket)
	}
}

// get sends a GET request to a socket, and returns the body of the answer.
func get(ctx context.Context, socket, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+url, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return data, err
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", socket)
}

// askDocker asks dockerd (GET /info).
func askDocker(ctx context.Context, socket string) (engine.Live, error) {
	data, err := get(ctx, socket, "/info")
	if err != nil {
		return engine.Live{}, err
	}
	var info struct {
		Runtimes       map[string]struct{ Path string }
		DefaultRuntime string
		CDISpecDirs    []string
		ServerVersion  string
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return engine.Live{}, err
	}
	// Docker before 25.0 has no CDI, and ignores the feature.
	l := engine.Live{
		Programs: map[string]string{}, Default: info.DefaultRuntime,
		CDI: len(info.CDISpecDirs) > 0 || major(info.ServerVersion) < 25,
	}
	for name, r := range info.Runtimes {
		l.Programs[name] = r.Path
	}
	return l, nil
}

// askCRIO asks CRI-O (GET /config, which "crio status config" prints).
func askCRIO(ctx context.Context, socket string) (engine.Live, error) {
	data, err := get(ctx, socket, "/config")
	if err != nil {
		return engine.Live{}, err
	}
	var config struct {
		CRIO struct {
			Runtime struct {
				Standard string `toml:"default_runtime"`
				Runtimes map[string]struct {
					Path string `toml:"runtime_path"`
				} `toml:"runtimes"`
			} `toml:"runtime"`
		} `toml:"crio"`
	}
	if err := toml.Unmarshal(data, &config); err != nil {
		return engine.Live{}, err
	}
	l := engine.Live{Programs: map[string]string{}, Default: config.CRIO.Runtime.Standard, CDI: true}
	for name, r := range config.CRIO.Runtime.Runtimes {
		l.Programs[name] = r.Path
	}
	return l, nil
}

// askContainerd asks containerd's CRI plugin for its status, which contains the config ("crictl
// info" prints it).
func askContainerd(ctx context.Context, socket string) (engine.Live, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, socket) }))
	if err != nil {
		return engine.Live{}, err
	}
	defer func() { _ = conn.Close() }()
	answer, err := cri.NewRuntimeServiceClient(conn).Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return engine.Live{}, err
	}
	text, has := answer.GetInfo()["config"]
	if !has {
		return engine.Live{}, errors.New("the answer has no config")
	}
	var config struct {
		Containerd struct {
			Standard string `json:"defaultRuntimeName"`
			Runtimes map[string]struct {
				Options struct{ BinaryName string }
			}
		}
		CDI *bool `json:"enableCDI"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return engine.Live{}, err
	}
	// containerd before 1.7 has no CDI, and forEngine does not expect it there.
	l := engine.Live{Programs: map[string]string{}, Default: config.Containerd.Standard, CDI: config.CDI == nil || *config.CDI}
	for name, r := range config.Containerd.Runtimes {
		l.Programs[name] = r.Options.BinaryName
	}
	return l, nil
}

// major returns the first number of a version, or 0 if it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first) // 0: a version of another shape
	return n
}
