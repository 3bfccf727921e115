package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/sim/internal/model"
)

// Board has the MIG profiles of a GPU.
type Board struct {
	Model string `json:"model"`
	// MemoryMiB and SMs belong to the whole GPU, without MIG.
	MemoryMiB int `json:"memoryMib"`
	SMs       int `json:"sms"`
	// ComputeSlices and MemorySlices are the total numbers of slices.
	ComputeSlices int `json:"computeSlices"`
	MemorySlices  int `json:"memorySlices"`
	// ModeNeedsReset is set if a change of the mode is pending until a reset.
	ModeNeedsReset bool        `json:"modeNeedsReset"`
	Source         string      `json:"source"`
	Profiles       []GIProfile `json:"profiles"`
}

// GIProfile is a GPU instance profile.
type GIProfile struct {
	// Profile is the number of the NVML_GPU_INSTANCE_PROFILE constant. ID is the profile ID that
	// nvidia-smi prints.
	Profile int    `json:"profile"`
	ID      int    `json:"id"`
	Name    string `json:"name"`
	// Slices counts compute slices and Size memory slices. Starts has the possible first memory slices.
	Slices    int   `json:"slices"`
	Size      int   `json:"size"`
	Starts    []int `json:"starts"`
	Max       int   `json:"max"`
	MemoryMiB int   `json:"memoryMib"`
	SMs       int   `json:"sms"`
	// Media is set if a GPU can have at most one instance of such a profile.
	Media    bool        `json:"media"`
	Engines  Engines     `json:"engines"`
	Verified bool        `json:"verified"`
	Source   string      `json:"source"`
	Compute  []CIProfile `json:"compute"`
}

// Engines has the number of engines of an instance.
type Engines struct {
	Copy    int `json:"copy"`
	Decoder int `json:"decoder"`
	Encoder int `json:"encoder"`
	JPEG    int `json:"jpeg"`
	OFA     int `json:"ofa"`
}

// CIProfile is a compute instance profile of a GPU instance profile.
type CIProfile struct {
	Profile  int    `json:"profile"`
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Slices   int    `json:"slices"`
	Starts   []int  `json:"starts"`
	Max      int    `json:"max"`
	SMs      int    `json:"sms"`
	Verified bool   `json:"verified"`
	Source   string `json:"source"`
}

// Board returns the board of a GPU. It returns ErrIndivisible for a GPU without MIG.
func (s *State) Board(slot Slot) (Board, error) {
	_, board, err := s.divisible(slot)
	if err != nil {
		return Board{}, err
	}
	gpu, err := s.gpu(slot)
	if err != nil {
		return Board{}, err
	}
	return describeBoard(&gpu, board), nil
}

// BoardOf returns the board of a model. It returns ErrIndivisible for a model without MIG.
func BoardOf(m model.Model) (Board, error) {
	if m.MIG == nil {
		return Board{}, fmt.Errorf("model %s: %w", m.Name, ErrIndivisible)
	}
	c, err := modelOf(m)
	if err != nil {
		return Board{}, err
	}
	return describeBoard(&c.gpu, &c.mig), nil
}

func describeBoard(gpu *C.struct_sim_gpu, board *C.struct_sim_board) Board {
	b := Board{
		Model: getString(gpu.model[:]), MemoryMiB: int(gpu.memory_total >> 20), SMs: int(gpu.sms),
		ComputeSlices: int(board.compute_slices), MemorySlices: int(board.memory_slices),
		ModeNeedsReset: board.mode_needs_reset != 0, Source: getString(board.source[:]),
	}
	for i := range C.uint32_t(C.SIM_GI_PROFILES) {
		p := C.sim_gi_profile(board, i)
		if p == nil {
			continue
		}
		g := GIProfile{
			Profile: int(p.profile), ID: int(p.id), Name: getString(p.name[:]),
			Slices: int(p.slices), Size: int(p.size), Starts: bits(p.starts), Max: int(p.max),
			MemoryMiB: int(p.memory_mib), SMs: int(p.sms), Media: strings.Contains(getString(p.name[:]), "+me"),
			Engines: Engines{
				Copy: int(p.copy), Decoder: int(p.decoder), Encoder: int(p.encoder), JPEG: int(p.jpeg), OFA: int(p.ofa),
			},
			Verified: p.verified != 0, Source: getString(p.source[:]),
		}
		for j := range C.uint32_t(C.SIM_CI_PROFILES) {
			var c C.struct_sim_ci_profile
			if C.sim_ci_profile(board, p, j, &c) {
				g.Compute = append(g.Compute, CIProfile{
					Profile: int(c.profile), ID: int(c.id), Name: getString(c.name[:]), Slices: int(c.slices),
					Starts: bits(c.starts), Max: int(c.max), SMs: int(c.sms),
					Verified: bool(c.verified), Source: C.GoString(c.source),
				})
			}
		}
		b.Profiles = append(b.Profiles, g)
	}
	return b
}

// bits returns the positions of the bits that are set.
func bits(mask C.uint32_t) []int {
	var set []int
	for n := range 32 {
		if mask>>n&1 != 0 {
			set = append(set, n)
		}
	}
	return set
}

// Find returns the profiles with a name. text is the name of a MIG device ("3g.20gb",
// "1c.3g.20gb"), or the profile ID of a GPU instance in nvidia-smi ("9"), which stands for the
// whole GPU instance.
func (b Board) Find(text string) (GIProfile, CIProfile, error) {
	var names []string
	for _, g := range b.Profiles {
		for _, c := range g.Compute {
			if c.Name == text || c.Slices == g.Slices && fmt.Sprint(g.ID) == text {
				return g, c, nil
			}
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return GIProfile{}, CIProfile{}, fmt.Errorf("profile %q: %w on model %s; want one of %s", text, ErrArgument, b.Model, strings.Join(names, ", "))
}

// Capacity returns how many more GPU instances of a profile fit on a GPU.
func (s *State) Capacity(slot Slot, profile GIProfile) (int, error) {
	ref, board, err := s.divisible(slot)
	if err != nil {
		return 0, err
	}
	kind := C.sim_gi_profile_by_id(board, C.uint32_t(profile.ID))
	if kind == nil {
		return 0, fmt.Errorf("profile %s on slot %d: %w", profile.Name, slot, ErrArgument)
	}
	var mig C.struct_sim_mig
	C.sim_read_mig(s.sim, ref.slot, &mig)
	return int(C.sim_gi_capacity(board, &mig, kind)), nil
}
