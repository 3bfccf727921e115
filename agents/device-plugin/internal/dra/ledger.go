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

// Claim is a claim that was prepared: what the ledger keeps of it.
type Claim struct {
	// Name is namespace and name, for people.
	Name string `json:"name"`
	// Devices are names of Devices.
	Devices []string `json:"devices"`
}

// Ledger knows which claim has which devices on this node. It is the last line
// of defence against two claims with one device. It is a value: what changes it
// returns another one.
type Ledger map[types.UID]Claim

// Granted is one device that a claim gets.
type Granted struct {
	// Request is the name of the claim's request.
	Request string
	Pool    string
	Device  Device
}

// Prepare returns what the claim gets of the node's devices, and the ledger
// that has it. A claim that was prepared before gets the same again. Devices of
// other drivers are not its business.
func (l Ledger) Prepare(claim *resourceapi.ResourceClaim, pool string, devices []Device) ([]Granted, Ledger, error) {
	if claim.Status.Allocation == nil {
		return nil, l, errors.New("the claim is not allocated")
	}
	if err := checkConfig(claim.Status.Allocation.Devices.Config); err != nil {
		return nil, l, err
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
			errs = append(errs, fmt.Errorf("device %s is of pool %s, this node's is %s", r.Device, r.Pool, pool))
		case i < 0:
			errs = append(errs, fmt.Errorf("device %s is not on this node any more: delete the pod, and it is allocated another one", r.Device))
		default:
			// Access of an administrator does not take the device from others.
			if r.AdminAccess == nil || !*r.AdminAccess {
				errs = append(errs, l.taken(claim.UID, r.Device))
				mine.Devices = append(mine.Devices, r.Device)
			}
			out = append(out, Granted{Request: r.Request, Pool: r.Pool, Device: devices[i]})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, l, err
	}
	next := maps.Clone(l)
	if next == nil {
		next = Ledger{}
	}
	next[claim.UID] = mine
	return out, next, nil
}

// checkConfig refuses settings for this driver: there are none, and to ignore
// them would give a pod less than it asked for.
func checkConfig(configs []resourceapi.DeviceAllocationConfiguration) error {
	for _, c := range configs {
		if c.Opaque != nil && c.Opaque.Driver == DriverName {
			return fmt.Errorf("the claim has a config for %s, which takes none (requests %s): remove it; sharing is offered by the device plugin",
				DriverName, strings.Join(c.Requests, ", "))
		}
	}
	return nil
}

// taken returns an error if another claim than this has the device.
func (l Ledger) taken(claim types.UID, device string) error {
	for uid, c := range l {
		if uid != claim && slices.Contains(c.Devices, device) {
			return fmt.Errorf("device %s is in use by claim %s (%s)", device, c.Name, uid)
		}
	}
	return nil
}

// Unprepare returns the ledger without a claim. It is no error if it has none.
func (l Ledger) Unprepare(claim types.UID) Ledger {
	next := maps.Clone(l)
	delete(next, claim)
	return next
}

// ledgerVersion is that of the file's format.
const ledgerVersion = "v1"

type ledgerFile struct {
	Version string `json:"version"`
	Claims  Ledger `json:"claims"`
}

// Encode returns the ledger as it is kept in a file. Equal ledgers give equal
// bytes.
func (l Ledger) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(ledgerFile{Version: ledgerVersion, Claims: l}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode prepared claims: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeLedger reads what Encode returned.
func DecodeLedger(data []byte) (Ledger, error) {
	var f ledgerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != ledgerVersion {
		return nil, fmt.Errorf("version is %q, want %s", f.Version, ledgerVersion)
	}
	if f.Claims == nil {
		f.Claims = Ledger{}
	}
	return f.Claims, nil
}
