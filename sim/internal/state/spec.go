package state

// #include "simstate.h"
import "C"

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"outrigger.dev/sim/internal/model"
)

// driverVersion matches NVIDIA's driver versions. The version is the name of a folder in the driver
// root.
var driverVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)

// Spec describes the node that Create makes.
type Spec struct {
	// Node seeds the UUIDs and serial numbers: two nodes with the same name have the same GPUs. If it
	// is empty, it is random.
	Node string
	// DriverVersion is a version such as "580.95.05". If it is empty, it is DefaultDriver.
	DriverVersion string
	// NVMLVersion defaults to the major version of CUDA and the driver version.
	NVMLVersion string
	// CUDA is the newest version that the driver supports. If it is zero, it is DefaultCUDA.
	CUDA Version
	// IMEXChannels is the number of IMEX channels with a device node. The driver makes channel 0 if its
	// parameter NVreg_CreateImexChannel0 is 1, and nvidia-modprobe makes the others.
	IMEXChannels int
	// DriverOff leaves the driver unloaded.
	DriverOff bool
	// Model is an argument of model.Find: the model of each GPU without one, and of the GPUs that are
	// plugged later. If it is empty, it is the model of the first GPU, or model.Default.
	Model string
	// Own is the model of the node in place of Model, unless it is nil.
	Own *model.Model
	// GPUs are put into the slots 0, 1, …. Their number is at most MaxGPUs.
	GPUs []GPUSpec
}

// GPUSpec describes one GPU.
type GPUSpec struct {
	// Model is an argument of model.Find. If it is empty, it is the model of the node.
	Model string
	// UUID defaults to a UUID that is derived from the node's name.
	UUID string
}

// Version is a major and minor number.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// String returns the version in the form "13.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// DefaultDriver is the driver version of a Spec without one.
const DefaultDriver = "580.95.05"

// MaxIMEXChannels is the number of channels that the driver provides, its parameter NVreg_ImexChannelCount.
const MaxIMEXChannels = 2048

// DefaultCUDA returns the CUDA version of a Spec without one.
func DefaultCUDA() Version { return Version{Major: 13} }

// NewSpec describes a node with count GPUs of one model.
func NewSpec(model string, count int) Spec {
	return Spec{Model: model, GPUs: make([]GPUSpec, count)}
}

func (spec Spec) withDefaults() Spec {
	if spec.Node == "" {
		spec.Node = rand.Text()
	}
	if spec.DriverVersion == "" {
		spec.DriverVersion = DefaultDriver
	}
	if spec.CUDA == (Version{}) {
		spec.CUDA = DefaultCUDA()
	}
	if spec.NVMLVersion == "" {
		spec.NVMLVersion = strconv.Itoa(spec.CUDA.Major) + "." + spec.DriverVersion
	}
	return spec
}

// Validate reports all mistakes in the spec.
func (spec Spec) Validate() error {
	var errs []error
	if len(spec.GPUs) > MaxGPUs {
		errs = append(errs, fmt.Errorf("%d GPUs: a node has at most %d", len(spec.GPUs), MaxGPUs))
	}
	if _, err := spec.models(); err != nil {
		errs = append(errs, err)
	}
	if spec.DriverVersion != "" && !driverVersion.MatchString(spec.DriverVersion) {
		errs = append(errs, fmt.Errorf("driver version %q: want digits and dots, as 580.95.05", spec.DriverVersion))
	}
	if spec.CUDA.Major < 0 || spec.CUDA.Minor < 0 || spec.CUDA.Minor > 99 {
		errs = append(errs, fmt.Errorf("CUDA version %s: out of range", spec.CUDA))
	}
	if spec.IMEXChannels < 0 || spec.IMEXChannels > MaxIMEXChannels {
		errs = append(errs, fmt.Errorf("%d IMEX channels: want 0 to %d", spec.IMEXChannels, MaxIMEXChannels))
	}
	return errors.Join(errs...)
}

// models returns the models of a new node, its own first. It stops at the first unknown model.
func (spec Spec) models() (*C.struct_sim_models, error) {
	own := spec.Model
	if own == "" && len(spec.GPUs) > 0 {
		own = spec.GPUs[0].Model
	}
	table := &C.struct_sim_models{}
	refs := []string{own}
	if spec.Own != nil {
		m, err := modelOf(*spec.Own)
		if err != nil {
			return nil, err
		}
		addModel(table, 0, m)
		refs = nil
	}
	for _, g := range spec.GPUs {
		if !slices.Contains(refs, g.Model) {
			refs = append(refs, g.Model)
		}
	}
	for _, ref := range refs {
		at, m, err := modelIn(table, ref)
		if err != nil {
			return nil, err
		}
		addModel(table, at, m)
	}
	return table, nil
}

// image returns the content of the state file of a new node.
func (spec Spec) image() (*C.struct_sim_state, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	spec = spec.withDefaults()
	image := &C.struct_sim_state{}
	C.sim_header_init(&image.header)
	if err := errors.Join(
		setString(image.node[:], spec.Node),
		setString(image.driver.version[:], spec.DriverVersion),
		setString(image.driver.nvml_version[:], spec.NVMLVersion),
	); err != nil {
		return nil, err
	}
	image.driver.cuda_version = C.uint32_t(spec.CUDA.Major*1000 + spec.CUDA.Minor*10)
	image.driver.imex_channels = C.uint32_t(spec.IMEXChannels)
	if !spec.DriverOff {
		image.driver.loaded = 1
		image.driver.loads = 1
	}
	models, err := spec.models()
	if err != nil {
		return nil, err
	}
	image.models = *models
	for i, g := range spec.GPUs {
		image.generations++
		at, m, err := modelIn(&image.models, g.Model)
		if err != nil {
			return nil, err
		}
		from := origin{model: m, modelAt: at, uuid: g.UUID, node: spec.Node, generation: uint64(image.generations)}
		if err := fillGPU(&image.gpu[i], from, Slot(i)); err != nil {
			return nil, err
		}
		now := C.sim_now_us()
		image.counters[i] = C.struct_sim_counters{since: now, power_at: now, power_before: C.uint64_t(image.gpu[i].power)}
		if err := checkPlace(image.gpu[:i], &image.gpu[i]); err != nil {
			return nil, err
		}
	}
	return image, nil
}
