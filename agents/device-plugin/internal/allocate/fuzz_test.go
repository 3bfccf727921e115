package allocate_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

// merged is a resource of whole GPUs, shared ones, and MIG devices shared and
// not: each is identified by its id.
func merged() resource.Resource {
	res := resource.Resource{Name: resource.GPU, Sharing: config.SharingMPS, FailRequestsGreaterThanOne: true}
	res.Devices = append(res.Devices, wholeGPUs(2, 1)...)
	res.Devices = append(res.Devices, wholeGPUs(3, 5)[2])
	res.Devices = append(res.Devices, migDevices(5, 2, 3)[6:]...)
	res.Devices = append(res.Devices, migDevices(6, 7, 1)[35:]...)
	return res
}

// FuzzAllocate asks for arbitrary ids, of which each stands on its own line:
// one that is advertised is a replica of a device by its own account, and there is
// no other error.
func FuzzAllocate(f *testing.F) {
	res := merged()
	all := free(res)
	f.Add(strings.Join(all[:2], "\n"))
	f.Add(strings.Join(all, "\n"))
	f.Add(all[3])
	f.Add(string(res.Devices[2].UUID) + "::05\n::\n:\nMIG-\xff::1")
	a := allocate.New(res, allocate.Options{
		ListStrategies:  []config.ListStrategy{config.ListEnvvar, config.ListVolumeMounts, config.ListCDIAnnotations, config.ListCDICRI},
		PassDeviceSpecs: true,
	})
	f.Fuzz(func(t *testing.T, lines string) {
		ids := strings.Split(lines, "\n")
		resp, err := a.Allocate(ids, token)
		stranger := slices.IndexFunc(ids, func(id string) bool { return !slices.Contains(all, id) })
		var (
			unknown allocate.UnknownDeviceError
			many    allocate.TooManySharedError
		)
		switch {
		case stranger >= 0:
			if !errors.As(err, &unknown) || unknown.ID != ids[stranger] {
				t.Fatalf("error is %v, want that %q is unknown", err, ids[stranger])
			}
		case errors.As(err, &many):
			if len(ids) < 2 || many.Count != len(ids) {
				t.Fatalf("%d devices are too many: %v", len(ids), err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			hardware := map[string]bool{}
			for _, id := range ids {
				uuid, _, _ := strings.Cut(id, "::")
				hardware[uuid] = true
			}
			if len(resp.GetCdiDevices()) != len(hardware) {
				t.Fatalf("%d CDI devices for %d of hardware", len(resp.GetCdiDevices()), len(hardware))
			}
		}
	})
}

// FuzzPreferred asks for arbitrary sizes of arbitrary ids: the answer is within
// the contract, or the request contradicts itself.
func FuzzPreferred(f *testing.F) {
	res := merged()
	all := free(res)
	f.Add(strings.Join(all, "\n"), "", 3, byte(0))
	f.Add(strings.Join(all, "\n"), strings.Join(all[4:7], "\n"), 9, byte(1))
	f.Add(strings.Join(all, "\n"), all[20], 12, byte(2))
	f.Add("GPU-strange\n"+all[1]+"\n"+all[1], "GPU-strange", 2, byte(3))
	f.Add(all[0], all[1], 1, byte(0))
	f.Add(strings.Join(all, "\n"), "", math.MaxInt, byte(1))
	f.Add(all[0], all[0], -1, byte(0))
	policies := []config.Policy{config.PolicyDistributed, config.PolicyPacked, config.PolicySpread, "other"}
	topo := allocate.NewTopology(gputest.Node(gputest.H100, 6))
	f.Fuzz(func(t *testing.T, lines, musts string, size int, policy byte) {
		available := strings.Split(lines, "\n")
		var must []string
		if musts != "" {
			must = strings.Split(musts, "\n")
		}
		a := allocate.New(res, allocate.Options{Topology: topo, Policy: policies[int(policy)%len(policies)]})
		got, err := a.Preferred(available, must, size)
		contradicts := size < len(must) || slices.ContainsFunc(must, func(id string) bool { return !slices.Contains(available, id) })
		var malformed allocate.MalformedRequestError
		if (err != nil) != contradicts || errors.As(err, &malformed) != contradicts {
			t.Fatalf("error is %v, want one = %v", err, contradicts)
		}
		if err == nil {
			known := func(ids []string) []string {
				return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(all, id) })
			}
			// An unknown device that must be included takes room, and the kubelet adds it.
			checkContract(t, known(available), known(must), size-(len(must)-len(known(must))), got)
		}
	})
}
