package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim is the checkpoint's record of a prepared claim.
type Claim struct {
	// Name is "namespace/name".
	Name string `json:"name"`
	// Devices has the names of the claim's devices (Device.Name).
	Devices []string `json:"devices"`
	// BootID is the boot ID of the node when the claim was prepared. It is empty if it is
	// unknown.
	BootID string `json:"bootID,omitempty"`
}

// Checkpoint records which claim has which devices on this node. It prevents two claims from
// getting the same device, even if the API server has deleted one of the claims. A device
// becomes free when the kubelet unprepares its claim, or when the node reboots. Methods do not
// change a Checkpoint: they return a changed copy.
type Checkpoint map[types.UID]Claim

// InUseError is the error for a claim with a device that another claim already has.
type InUseError struct {
	Device string
	// Claim is "namespace/name".
	Claim string
	UID   types.UID
}

// Error names the device and the claim that has it.
func (e *InUseError) Error() string {
	return fmt.Sprintf("device %s is in use by claim %s (%s)", e.Device, e.Claim, e.UID)
}

// Granted is one device for a claim.
type Granted struct {
	// Request is the name of the claim's request.
	Request string
	Pool    string
	Device  Device
}

// Prepare returns the devices of this node that are allocated to the claim, and the checkpoint
// with the claim. If the claim was prepared before, it gets the same devices again. Prepare
// ignores devices of other drivers.
func (c Checkpoint) Prepare(claim *resourceapi.ResourceClaim, pool string, devices []Device) ([]Granted, Checkpoint, error) {
	if claim.Status.Allocation == nil {
		return nil, c, errors.New("the claim is not allocated")
	}
	if err := checkConfig(claim.Status.Allocation.Devices.Config); err != nil {
		return nil, c, err
	}
	var (
		out  []Granted
		errs []error
		mine = Claim{Name: claim.Namespace + "/" + claim.Name}
	)
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != DriverName {
			continue
		}
		i := slices.IndexFunc(devices, func(d Device) bool { return d.Name == r.Device })
		switch {
		case r.Pool != pool:
			errs = append(errs, fmt.Errorf("device %s is in pool %s, and the pool of this node is %s", r.Device, r.Pool, pool))
		case i < 0:
			errs = append(errs, fmt.Errorf("device %s is not on this node any more: delete the pod, so that its claim is allocated again", r.Device))
		default:
			// Administrative access does not reserve the device.
			if r.AdminAccess == nil || !*r.AdminAccess {
				errs = append(errs, c.checkUnused(claim.UID, r.Device))
				mine.Devices = append(mine.Devices, r.Device)
			}
			out = append(out, Granted{Request: r.Request, Pool: r.Pool, Device: devices[i]})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, c, err
	}
	next := maps.Clone(c)
	if next == nil {
		next = Checkpoint{}
	}
	next[claim.UID] = mine
	return out, next, nil
}

// checkConfig rejects a claim with a config for this driver. The driver accepts no config,
// and if it ignored the config, the pod would get less than it requests.
func checkConfig(configs []resourceapi.DeviceAllocationConfiguration) error {
	for _, c := range configs {
		if c.Opaque != nil && c.Opaque.Driver == DriverName {
			return fmt.Errorf("the claim has a config for %s, which accepts none (requests %s): remove it; to share GPUs, use the device plugin",
				DriverName, strings.Join(c.Requests, ", "))
		}
	}
	return nil
}

// checkUnused returns an *InUseError if another claim has the device.
func (c Checkpoint) checkUnused(claim types.UID, device string) error {
	for uid, held := range c {
		if uid != claim && slices.Contains(held.Devices, device) {
			return &InUseError{Device: device, Claim: held.Name, UID: uid}
		}
	}
	return nil
}

// Unprepare returns the checkpoint without the claim. It returns an unchanged copy if the checkpoint
// does not have the claim.
func (c Checkpoint) Unprepare(claim types.UID) Checkpoint {
	next := maps.Clone(c)
	delete(next, claim)
	return next
}

// sinceBoot returns the checkpoint without the claims of earlier boots. The pods of these claims
// have ended.
func (c Checkpoint) sinceBoot(boot string) Checkpoint {
	next := maps.Clone(c)
	maps.DeleteFunc(next, func(_ types.UID, held Claim) bool { return boot != "" && held.BootID != "" && held.BootID != boot })
	return next
}

// checkpointVersion is the version of the file format.
const checkpointVersion = "v1"

type checkpointFile struct {
	Version string     `json:"version"`
	Claims  Checkpoint `json:"claims"`
}

// Encode returns the content of the checkpoint's file. Equal checkpoints give equal bytes.
func (c Checkpoint) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(checkpointFile{Version: checkpointVersion, Claims: c}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode prepared claims: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeCheckpoint parses the content of the checkpoint's file.
func DecodeCheckpoint(data []byte) (Checkpoint, error) {
	var f checkpointFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != checkpointVersion {
		return nil, fmt.Errorf("version is %q, want %s", f.Version, checkpointVersion)
	}
	if f.Claims == nil {
		f.Claims = Checkpoint{}
	}
	return f.Claims, nil
}
