package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pelletier/go-toml/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// answerLimit is how long an engine may take to answer, and maxAnswer the most bytes.
const (
	answerLimit = 5 * time.Second
	maxAnswer   = 16 << 20
)

// live is what a running engine has loaded.
type live struct {
	// programs are the programs of the runtimes, by name.
	programs map[string]string
	// standard is the name of the default runtime.
	standard string
	// cdi is false if the engine says that CDI is off.
	cdi bool
}

// missing returns what an engine has not loaded, or "".
func (l live) missing(d Desired) string {
	for _, r := range d.Runtimes {
		if l.programs[r.Name] != r.Path {
			return fmt.Sprintf("the program of the runtime %s is %q, not %s", r.Name, l.programs[r.Name], r.Path)
		}
	}
	if d.Default != "" && l.standard != d.Default {
		return fmt.Sprintf("the default runtime is %q, not %s", l.standard, d.Default)
	}
	if d.CDI && !l.cdi {
		return "CDI is off"
	}
	return ""
}

// ask asks the running engine what it has loaded.
func (k *Keeper) ask(ctx context.Context, t target) (live, error) {
	socket, err := k.socket(t)
	if err != nil {
		return live{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var l live
	switch t.engine {
	case Docker:
		l, err = askDocker(ctx, socket)
	case CRIO:
		l, err = askCRIO(ctx, socket)
	default:
		l, err = askContainerd(ctx, socket)
	}
	if err != nil {
		return live{}, fmt.Errorf("ask %s at %s for its configuration: %w", t.engine, t.socket, err)
	}
	return l, nil
}

// socket returns where this process sees the socket of the engine. A mount of the host's
// root that was made before the folder of the socket was mounted does not show it, but
// the root of the engine's process does.
func (k *Keeper) socket(t target) (string, error) {
	real, err := k.host.path(t.socket)
	if err == nil && exists(real) {
		return real, nil
	}
	if t.process != nil {
		h := host{root: filepath.Join(k.host.proc, strconv.Itoa(t.process.pid), "root")}
		if real, err := h.path(t.socket); err == nil && exists(real) {
			return real, nil
		}
	}
	return real, err
}

// request sends a request to a socket, and returns the answer.
func request(ctx context.Context, socket, method, url string, h2c bool, body []byte) ([]byte, http.Header, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	if h2c {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if h2c {
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	for key, values := range resp.Trailer {
		resp.Header[key] = values
	}
	return data, resp.Header, err
}

// askDocker asks dockerd (GET /info).
func askDocker(ctx context.Context, socket string) (live, error) {
	data, _, err := request(ctx, socket, http.MethodGet, "/info", false, nil)
	if err != nil {
		return live{}, err
	}
	var info struct {
		Runtimes       map[string]struct{ Path string }
		DefaultRuntime string
		CDISpecDirs    []string
		ServerVersion  string
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return live{}, err
	}
	// Before 25.0, Docker has no CDI and ignores the feature.
	l := live{programs: map[string]string{}, standard: info.DefaultRuntime,
		cdi: len(info.CDISpecDirs) > 0 || !parseVersion(info.ServerVersion).atLeast(version{25, 0})}
	for name, r := range info.Runtimes {
		l.programs[name] = r.Path
	}
	return l, nil
}

// askCRIO asks CRI-O (GET /config, which "crio status config" prints).
func askCRIO(ctx context.Context, socket string) (live, error) {
	data, _, err := request(ctx, socket, http.MethodGet, "/config", false, nil)
	if err != nil {
		return live{}, err
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
		return live{}, err
	}
	l := live{programs: map[string]string{}, standard: config.CRIO.Runtime.Standard, cdi: true}
	for name, r := range config.CRIO.Runtime.Runtimes {
		l.programs[name] = r.Path
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
func askContainerd(ctx context.Context, socket string) (live, error) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, verboseField, protowire.VarintType), 1)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	data, header, err := request(ctx, socket, http.MethodPost, "/runtime.v1.RuntimeService/Status", true, body)
	if err != nil {
		return live{}, err
	}
	if code := header.Get("Grpc-Status"); code != "0" {
		return live{}, fmt.Errorf("status %s: %s", code, header.Get("Grpc-Message"))
	}
	const prefix = 5
	if len(data) < prefix || data[0] != 0 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-prefix {
		return live{}, errors.New("the answer is cut off")
	}
	text, err := infoOf(data[prefix:], "config")
	if err != nil {
		return live{}, err
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
		return live{}, err
	}
	// containerd before 1.7 has no CDI, and is not asked to turn it on.
	l := live{programs: map[string]string{}, standard: config.Containerd.Standard, cdi: config.CDI == nil || *config.CDI}
	for name, r := range config.Containerd.Runtimes {
		l.programs[name] = r.Options.BinaryName
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
