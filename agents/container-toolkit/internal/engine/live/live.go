// Package live asks running container engines what they have loaded. It is apart from
// package engine because it links an HTTP client, which tools on the host do not need.
package live

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

// answerLimit is how long an engine may take to answer, and maxAnswer the most bytes.
const (
	answerLimit = 5 * time.Second
	maxAnswer   = 16 << 20
)

// Ask asks the engine that listens on a socket what it has loaded. It is an engine.Ask.
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

// get sends a GET request to a socket, and returns the answer.
func get(ctx context.Context, socket, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+url, nil)
	if err != nil {
		return nil, err
	}
	data, _, err := send(socket, req, nil)
	return data, err
}

// call calls a method of gRPC, and returns the answer's message.
func call(ctx context.Context, socket, method string, message []byte) ([]byte, error) {
	const prefix = 5 // a flag, and the length
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	data, header, err := send(socket, req, protocols)
	if err != nil {
		return nil, err
	}
	if code := header.Get("Grpc-Status"); code != "0" {
		return nil, fmt.Errorf("status %s: %s", code, header.Get("Grpc-Message"))
	}
	if len(data) < prefix || data[0] != 0 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-prefix {
		return nil, errors.New("the answer is cut off")
	}
	return data[prefix:], nil
}

// send sends a request to a socket. It returns the body, and the headers with the trailers.
func send(socket string, req *http.Request, protocols *http.Protocols) ([]byte, http.Header, error) {
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	maps.Copy(resp.Header, resp.Trailer)
	return data, resp.Header, err
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
	// Before 25.0, Docker has no CDI and ignores the feature.
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

// The fields of the messages of the CRI that are read and written here:
// StatusRequest.verbose, and StatusResponse.info, a map from names to JSON.
const (
	verboseField = 1
	infoField    = 2
)

// askContainerd asks containerd's CRI plugin for its status, which has its config (the
// method Status of runtime.v1.RuntimeService; "crictl info" prints the answer).
func askContainerd(ctx context.Context, socket string) (engine.Live, error) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, verboseField, protowire.VarintType), 1)
	answer, err := call(ctx, socket, "/runtime.v1.RuntimeService/Status", message)
	if err != nil {
		return engine.Live{}, err
	}
	text, err := infoOf(answer, "config")
	if err != nil {
		return engine.Live{}, err
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
	// containerd before 1.7 has no CDI, and is not asked to turn it on.
	l := engine.Live{Programs: map[string]string{}, Default: config.Containerd.Standard, CDI: config.CDI == nil || *config.CDI}
	for name, r := range config.Containerd.Runtimes {
		l.Programs[name] = r.Options.BinaryName
	}
	return l, nil
}

// infoOf returns an entry of the map info of a StatusResponse.
func infoOf(message []byte, name string) (string, error) {
	entries, err := fields(message, infoField)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		const keyField, valueField = 1, 2
		key, err := fields(entry, keyField)
		if err != nil {
			return "", err
		}
		value, err := fields(entry, valueField)
		if err != nil {
			return "", err
		}
		if len(key) == 1 && string(key[0]) == name && len(value) == 1 {
			return string(value[0]), nil
		}
	}
	return "", fmt.Errorf("the answer has no %q", name)
}

// fields returns the values of a field of a message that has bytes.
func fields(message []byte, number protowire.Number) ([][]byte, error) {
	var out [][]byte
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		if num == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			out = append(out, value)
		}
		if n = protowire.ConsumeFieldValue(num, kind, message); n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return out, nil
}

// major returns the first number of a version; 0 if it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first) // 0: a version of another shape
	return n
}
