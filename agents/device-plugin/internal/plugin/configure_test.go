package plugin_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
)

const (
	sharedName = "nvidia.com/gpu.shared"
	migName    = "nvidia.com/mig-3g.20gb"
)

// divided is a rig whose GPU 0 is whole, and whose GPU 1 has two MIG devices.
func divided(t *testing.T, change func(*inventory.Config)) *rig {
	t.Helper()
	r := newRig(t, 2, func(c *inventory.Config) {
		c.Config.MIGStrategy = config.MIGStrategyMixed
		if change != nil {
			change(c)
		}
	})
	r.source.Partition(gpu.UUID(id(1)), "3g.20gb", "3g.20gb")
	r.startKubelet(t)
	r.run(t)
	return r
}

// mixed is a divided rig that advertises what it has.
func mixed(t *testing.T, change func(*inventory.Config)) *rig {
	t.Helper()
	r := divided(t, change)
	r.devices(t, resourceName, ok)
	r.devices(t, migName, ok, ok)
	r.marker.wait(t, true)
	return r
}

// shared is the config of the rig with whole GPUs shared by n, under another
// name.
func (r *rig) shared(n int) config.Config {
	c := r.config
	c.Sharing = config.Sharing{
		Strategy: config.SharingTimeSlicing,
		Shares:   []config.Share{{Name: resourceName, Rename: sharedName, Replicas: n}},
	}
	return c
}

func rules() health.Rules {
	r, _ := health.ParseRules("", "")
	return r
}

func TestAConfigChangesOnlyWhatItConcerns(t *testing.T) {
	r := mixed(t, nil)
	r.inv.Configure(r.shared(3), rules())
	r.devices(t, sharedName, ok, ok, ok)
	r.withdrawn(t, resourceName)
	r.marker.wait(t, true)

	r.inv.Configure(r.shared(2), rules())
	r.devices(t, sharedName, ok, ok)

	r.inv.Configure(r.config, rules())
	r.devices(t, resourceName, ok)
	r.withdrawn(t, sharedName)

	if n := r.kubelet.Lists(migName); n != 1 {
		t.Errorf("%d lists of %s, which no config concerned, want 1", n, migName)
	}
	if n := r.kubelet.Streams(migName); n != 1 {
		t.Errorf("%d streams of %s, want 1", n, migName)
	}
	// nvidia.com/gpu twice, the two others once.
	if n := len(r.kubelet.Registrations()); n != 4 {
		t.Errorf("%d registrations, want 4", n)
	}
}

// However fast configs follow each other, the last one is what is advertised.
func TestConfigsThatFollowEachOther(t *testing.T) {
	r := mixed(t, nil)
	for i := range 30 {
		r.inv.Configure(r.shared(2+i%2), rules())
		if i%3 == 0 {
			r.devices(t, sharedName, repeat(2+i%2)...)
		}
		r.inv.Configure(r.config, rules())
		if i%5 == 0 {
			r.devices(t, resourceName, ok)
		}
	}
	r.devices(t, resourceName, ok)
	r.gone(t, sharedName)
	r.marker.wait(t, true)
	if n := r.kubelet.Lists(migName); n != 1 {
		t.Errorf("%d lists of %s, want 1", n, migName)
	}
}

func repeat(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = ok
	}
	return out
}

func TestAResourceGoesWhileThereIsNoKubelet(t *testing.T) {
	r := mixed(t, nil)
	r.kubelet.Stop()
	r.marker.wait(t, false)
	r.inv.Configure(r.shared(2), rules())
	r.gone(t, resourceName)
	before := len(r.kubelet.Registrations())
	r.startKubelet(t)
	r.devices(t, sharedName, ok, ok)
	r.devices(t, migName, ok, ok)
	r.marker.wait(t, true)
	if n := len(r.kubelet.Registrations()) - before; n != 2 {
		t.Errorf("%d registrations with the new kubelet, want 2", n)
	}
}

// Whoever does not read the list is not waited for long.
func TestAResourceGoesAlthoughItsListIsNotRead(t *testing.T) {
	r := mixed(t, nil)
	const replicas = 3000
	r.inv.Configure(r.shared(replicas), rules())
	r.devices(t, sharedName, repeat(replicas)...)
	// Less than the list may be on its way to this reader, which is none.
	conn, err := grpc.NewClient("unix://"+filepath.Join(r.dir, server.SocketName(sharedName)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	assert.NilError(t, err)
	defer func() { _ = conn.Close() }()
	stream, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(t.Context(), &pluginapi.Empty{})
	assert.NilError(t, err)
	if _, err := stream.Header(); err != nil { // the list is on its way
		t.Fatal(err)
	}
	r.inv.Configure(r.config, rules())
	r.devices(t, resourceName, ok)
	r.withdrawn(t, sharedName)
	// The name is free again although the reader has not hung up.
	r.inv.Configure(r.shared(2), rules())
	r.devices(t, sharedName, ok, ok)
}

func TestAConfigThatCannotBePrepared(t *testing.T) {
	r := mixed(t, func(c *inventory.Config) {
		c.Preparer = preparing(func(c config.Config, _ *gpu.Node) (inventory.Prepared, error) {
			if c.GDS {
				return inventory.Prepared{}, errors.New("find /dev/nvidia-fs0: no such file")
			}
			return inventory.Prepared{}, nil
		})
	})
	bad := r.shared(2)
	bad.GDS = true
	r.inv.Configure(bad, rules())
	r.reported(t, cause.GPUsNotOffered, "find /dev/nvidia-fs0: no such file")
	if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, id(0)); err != nil {
		t.Errorf("what was advertised does not work any more: %v", err)
	}
	r.inv.Configure(r.shared(2), rules())
	r.devices(t, sharedName, ok, ok)
	r.withdrawn(t, resourceName)
}

func TestMIGLayoutChanges(t *testing.T) {
	prepared := make(chan map[gpu.UUID]bool, 16)
	r := mixed(t, func(c *inventory.Config) {
		c.Preparer = preparer(func(n *gpu.Node) (inventory.Prepared, error) {
			ids := map[gpu.UUID]bool{}
			for _, d := range n.GPUs[1].MIG.Devices {
				ids[d.UUID] = true
			}
			prepared <- ids
			return inventory.Prepared{}, nil
		})
	})
	<-prepared
	r.source.Partition(gpu.UUID(id(1)), "1g.5gb", "1g.5gb", "1g.5gb")
	u := r.devices(t, "nvidia.com/mig-1g.5gb", ok, ok, ok)
	select {
	case ids := <-prepared:
		for _, d := range u.Devices {
			if !ids[gpu.UUID(d.GetID())] {
				t.Errorf("%s was advertised before it was prepared", d.GetID())
			}
		}
	default:
		t.Error("MIG devices were advertised before they were prepared")
	}
	r.withdrawn(t, migName)
	if n := r.kubelet.Lists(resourceName); n != 1 {
		t.Errorf("%d lists of %s, which did not change, want 1", n, resourceName)
	}
}

// A MIG device that is gone is not healthy, even if the rest of the new layout
// cannot be prepared.
func TestMIGLayoutThatCannotBePrepared(t *testing.T) {
	layouts := 0
	r := mixed(t, func(c *inventory.Config) {
		c.Preparer = preparer(func(*gpu.Node) (inventory.Prepared, error) {
			if layouts++; layouts > 1 {
				return inventory.Prepared{}, errors.New("write CDI spec: no space left on device")
			}
			return inventory.Prepared{}, nil
		})
	})
	r.source.Partition(gpu.UUID(id(1)))
	r.devices(t, migName, bad, bad)
	r.devices(t, resourceName, ok)
}

func TestMIGDeviceThatCannotBeGiven(t *testing.T) {
	n := gputest.Partition(gputest.Node(gputest.A100, 1), 0, "1g.5gb", "1g.5gb")
	r := newRig(t, 1, func(c *inventory.Config) {
		c.Preparer = preparer(func(*gpu.Node) (inventory.Prepared, error) {
			return inventory.Prepared{Unresolved: map[gpu.UUID]string{n.GPUs[0].MIG.Devices[1].UUID: "device node is missing"}}, nil
		})
		c.Config.MIGStrategy = config.MIGStrategySingle
	})
	r.source.SetNode(n)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, bad)
}

func TestXIDOfAMIGDeviceReachesItsReplicasOnly(t *testing.T) {
	r := divided(t, func(c *inventory.Config) {
		c.Rules.Quiet = 200 * time.Millisecond
		c.Config.Sharing = config.Sharing{
			Strategy: config.SharingTimeSlicing,
			Shares:   []config.Share{{Name: migName, Rename: migName, Replicas: 2}},
		}
	})
	r.devices(t, migName, ok, ok, ok, ok)
	n, err := r.source.Snapshot(t.Context())
	assert.NilError(t, err)
	second := n.GPUs[1].MIG.Devices[1]
	r.source.PostInstanceXID(gpu.UUID(id(1)), second.GPUInstance, gpu.NoInstance, 61)
	r.devices(t, migName, ok, ok, bad, bad)
	r.devices(t, resourceName, ok)
	r.devices(t, migName, ok, ok, ok, ok)
	if n := r.kubelet.Lists(resourceName); n != 1 {
		t.Errorf("%d lists of %s, want 1", n, resourceName)
	}
}

func TestReports(t *testing.T) {
	r := mixed(t, nil)
	r.source.PostXID(gpu.UUID(id(1)), 95)
	r.devices(t, migName, bad, bad)
	got := r.reported(t, cause.DeviceUnhealthy, "xid 95 (uncontained memory error): reset the GPU")
	if !slices.Equal(got.Resources, []string{migName}) || len(got.Devices) != 2 {
		t.Errorf("reported %d devices of %s, want both of %s at once", len(got.Devices), got.Resources, migName)
	}
	r.source.Lose(gpu.UUID(id(1)))
	r.source.Heal(gpu.UUID(id(1)))
	r.devices(t, migName, ok, ok)
	r.reported(t, inventory.ReportHealthy, "")
}
