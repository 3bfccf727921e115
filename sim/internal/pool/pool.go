// Package pool derives which GPUs a node of Kubernetes simulates: from a label of the Node, or from the pools
// of the chart gpu-sim. It does no I/O.
package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// Label selects the GPUs of one Node. Its value is MODELxCOUNT, or MODEL for DefaultGPUs of them.
const Label = "outrigger.dev/simulated-gpus"

// DefaultGPUs is the number of GPUs if a label or a pool does not name one.
const DefaultGPUs = 8

// Simulation describes the GPUs that a node simulates.
type Simulation struct {
	Model string `json:"model"`
	// Definition is the data of Model, if it is one of Models.
	Definition string `json:"definition,omitempty"`
	GPUs       int    `json:"gpus"`
	// MIG has the profiles of the MIG devices of each GPU, such as "3g.40gb". If it is empty, the MIG mode is
	// off.
	MIG []string `json:"mig,omitempty"`
	// Fabric is the state of all GPUs in their NVLink fabric, in the form of "gpu-sim set GPU.fabric=".
	Fabric        string `json:"fabric,omitempty"`
	DriverVersion string `json:"driverVersion,omitempty"`
	// IMEXChannels is the number of IMEX channels with a device node.
	IMEXChannels int `json:"imexChannels,omitempty"`
	// Latency is added to each call of NVML, such as "10us".
	Latency string `json:"latency,omitempty"`
}

// Pool is a kind of nodes that simulate the same GPUs.
type Pool struct {
	Name string `json:"name"`
	// NodeSelector has the labels of the pool's nodes.
	NodeSelector map[string]string `json:"nodeSelector"`
	Simulation
}

// Parse parses the pools of the chart, a list in JSON. The error has all mistakes, except for pools with own models:
// Choose checks these, so that a mistake in a model concerns only the nodes that use it.
func Parse(text string, models Models) ([]Pool, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var pools []Pool
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&pools); err != nil {
		return nil, fmt.Errorf("want a list of pools in JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one list of pools in JSON")
	}
	var errs []error
	for i, p := range pools {
		pools[i] = p.withDefaults(i)
		if pools[i].Definition = models[p.Model]; pools[i].Definition != "" {
			continue
		}
		if err := pools[i].Check(); err != nil {
			errs = append(errs, fmt.Errorf("pool %s: %w%s", pools[i].Name, err, models.hint(p.Model)))
		}
	}
	return pools, errors.Join(errs...)
}

func (p Pool) withDefaults(i int) Pool {
	if p.Name == "" {
		p.Name = strconv.Itoa(i)
	}
	if p.GPUs == 0 {
		p.GPUs = DefaultGPUs
	}
	return p
}

var labelValue = regexp.MustCompile(`^(.+)x([0-9]+)$`)

// ParseLabel parses a value of Label.
func ParseLabel(value string, models Models) (Simulation, error) {
	s := Simulation{Model: value, GPUs: DefaultGPUs}
	if m := labelValue.FindStringSubmatch(value); m != nil && models[value] == "" {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return Simulation{}, fmt.Errorf("count %s: %w", m[2], err)
		}
		s = Simulation{Model: m[1], GPUs: n}
	}
	s.Definition = models[s.Model]
	return s, s.Check()
}

// model returns the model of the GPUs.
func (s Simulation) model() (model.Model, error) {
	if s.Definition != "" {
		return model.ParseOwn(s.Model, []byte(s.Definition))
	}
	return model.FindBuiltin(s.Model)
}

// Check returns all mistakes in s.
func (s Simulation) Check() error {
	var errs []error
	if s.GPUs < 1 {
		errs = append(errs, fmt.Errorf("%d GPUs: want 1 to %d", s.GPUs, state.MaxGPUs))
	}
	m, unknown := s.model()
	bad := errors.Join(unknown, s.spec(m, "").Validate())
	errs = append(errs, bad)
	if _, err := s.latency(); err != nil {
		errs = append(errs, err)
	}
	if bad == nil {
		errs = append(errs, s.checkMIG(m), s.checkFabric(m))
	}
	return errors.Join(errs...)
}

func (s Simulation) checkMIG(m model.Model) error {
	requests, err := s.Requests()
	if err != nil || len(requests) == 0 {
		return err
	}
	board, err := state.BoardOf(m)
	if err != nil {
		return fmt.Errorf("mig: %w", err)
	}
	var errs []error
	for _, r := range requests {
		if _, _, err := board.Find(r.Profile); err != nil {
			errs = append(errs, fmt.Errorf("mig: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (s Simulation) checkFabric(m model.Model) error {
	if s.Fabric == "" {
		return nil
	}
	if m.Server.Links == nil || !m.Server.Links.Fabric {
		return fmt.Errorf("fabric: %s has none", s.Model)
	}
	return state.CheckFabric(s.Fabric)
}

// Requests returns the MIG devices of each GPU.
func (s Simulation) Requests() ([]node.Request, error) {
	var requests []node.Request
	var errs []error
	for _, text := range s.MIG {
		r, err := node.ParseRequest(text)
		requests, errs = append(requests, r), append(errs, err)
	}
	return requests, errors.Join(errs...)
}

// Delay returns the latency of a call of NVML. Check has checked it.
func (s Simulation) Delay() time.Duration {
	d, err := s.latency()
	if err != nil {
		return 0
	}
	return d
}

func (s Simulation) latency() (time.Duration, error) {
	if s.Latency == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s.Latency)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("latency %q: want a duration such as 10us", s.Latency)
	}
	return d, nil
}

// Spec returns the GPUs for the Node of this name. The same name gives the same UUIDs.
func (s Simulation) Spec(name string) (state.Spec, error) {
	m, err := s.model()
	return s.spec(m, name), err
}

func (s Simulation) spec(m model.Model, name string) state.Spec {
	spec := state.NewSpec("", max(s.GPUs, 0))
	spec.Own, spec.Node, spec.DriverVersion, spec.IMEXChannels = &m, name, s.DriverVersion, s.IMEXChannels
	return spec
}

// Equal reports whether both describe the same GPUs.
func (s Simulation) Equal(other Simulation) bool {
	return s.Model == other.Model && s.Definition == other.Definition && s.GPUs == other.GPUs && slices.Equal(s.MIG, other.MIG) &&
		s.Fabric == other.Fabric && s.DriverVersion == other.DriverVersion && s.IMEXChannels == other.IMEXChannels && s.Latency == other.Latency
}

// Choose returns the GPUs of a Node with these labels: those of Label, or else those of the first pool whose
// labels the Node has. It returns nil for a Node that simulates none.
func Choose(labels map[string]string, pools []Pool, models Models) (*Simulation, error) {
	if value, ok := labels[Label]; ok {
		s, err := ParseLabel(value, models)
		if err != nil {
			return nil, fmt.Errorf("label %s=%s of the Node: %w%s; write MODELxCOUNT, such as h100-80x8, or remove the label", Label, value, err, models.hint(s.Model))
		}
		return &s, nil
	}
	for _, p := range pools {
		if p.selects(labels) {
			s := p.Simulation
			if err := s.Check(); err != nil {
				return nil, fmt.Errorf("pool %s: %w", p.Name, err)
			}
			return &s, nil
		}
	}
	return nil, nil //nolint:nilnil // as documented
}

func (p Pool) selects(labels map[string]string) bool {
	for key, want := range p.NodeSelector {
		if value, ok := labels[key]; !ok || value != want {
			return false
		}
	}
	return true
}
