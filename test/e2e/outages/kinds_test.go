//go:build e2e

package outages_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/contract"
)

func kinds() []*kind {
	return []*kind{
		{
			name: "device-plugin", kubelet: true, published: devices, period: 5 * time.Second, reports: unhealthy,
			args: func(dir string) []string {
				return []string{
					"--kubelet-socket=" + filepath.Join(dir, "k", "kubelet.sock"), "--cdi-root=" + filepath.Join(dir, "cdi"),
					"--device-list-strategy=cdi-cri", "--mig-strategy=mixed",
				}
			},
		},
		{
			name: "dra-plugin", slices: true, published: advertised, period: 5 * time.Second, reports: withdrawn,
			args: func(dir string) []string {
				return []string{
					"--node-name=node1", "--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--cdi-root=" + filepath.Join(dir, "cdi"),
					"--kubelet-plugins-dir=" + filepath.Join(dir, "k"), "--kubelet-registry-dir=" + filepath.Join(dir, "reg"),
				}
			},
		},
		{
			name: "feature-discovery", published: labels, period: 5 * time.Second,
			args: func(dir string) []string {
				return []string{"--publish=nfd-file", "--output-file=" + filepath.Join(dir, "labels"), "--mig-strategy=mixed"}
			},
		},
		{
			name: "dcgm-exporter", published: metrics, period: 12 * time.Second, reports: exported,
			args: func(string) []string { return []string{"--node-name=node1"} },
		},
	}
}

// devices adds the devices that the kubelet was offered with their health, a preferred set, for
// which the plugin needs the links of GPUs, and its files on the node.
func devices(p *process, s state) error {
	// Without time to wait: what is there now.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	names := map[string]bool{}
	for _, r := range p.kubelet.Registrations() {
		names[r.Request.GetResourceName()] = true
	}
	var gpus []string
	for name := range names {
		list, err := p.kubelet.WaitDevices(now, name, func([]*pluginapi.Device) bool { return true })
		if err != nil {
			continue // withdrawn
		}
		for _, d := range list.Devices {
			s[name+" "+d.GetID()] = d.GetHealth()
			if name == gpuResource {
				gpus = append(gpus, d.GetID())
			}
		}
	}
	if err := preferred(p, gpus, s); err != nil {
		return err
	}
	return files(p, contract.PluginReady, s)
}

// files adds the fact of a plugin, and its CDI specs.
func files(p *process, fact contract.Name, s state) error {
	s[string(fact)] = string(contract.Dir{Root: filepath.Join(p.dir, "run")}.Read(fact).State)
	specs, err := os.ReadDir(filepath.Join(p.dir, "cdi"))
	for _, spec := range specs {
		data, err := os.ReadFile(filepath.Join(p.dir, "cdi", spec.Name()))
		if err != nil {
			return err
		}
		s[spec.Name()] = string(data)
	}
	return err
}

const gpuResource = "nvidia.com/gpu"

func preferred(p *process, gpus []string, s state) error {
	const size = 2
	if len(gpus) < size {
		return nil
	}
	client, err := p.kubelet.Plugin(gpuResource)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer, err := client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: gpus, AllocationSize: size}},
	})
	if err != nil {
		return err
	}
	ids := answer.GetContainerResponses()[0].GetDeviceIDs()
	slices.Sort(ids)
	s["preferred"] = strings.Join(ids, ",")
	return nil
}

// unhealthy tells whether exactly one device is unhealthy.
func unhealthy(s state) bool {
	n := 0
	for name, value := range s {
		if strings.HasPrefix(name, gpuResource+" ") && value == pluginapi.Unhealthy {
			n++
		}
	}
	return n == 1
}

// advertised adds the devices in the ResourceSlices of the node, and the plugin's files.
func advertised(p *process, s state) error {
	return errors.Join(p.api.devices(s), files(p, contract.DRAReady, s))
}

// withdrawn tells whether exactly the device of GPU 0 is not published.
func withdrawn(s state) bool {
	return s["device gpu-0"] == "" && s["device gpu-2"] != "" && s["device gpu-3"] != ""
}

// labels adds the labels of the node.
func labels(p *process, s state) error {
	data, err := os.ReadFile(filepath.Join(p.dir, "labels"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			return fmt.Errorf("the features file has the line %q", line)
		}
		if name != "nvidia.com/gfd.timestamp" {
			s[name] = value
		}
	}
	return err
}

// metrics adds the metrics of the GPUs, without the energy, which grows with time.
func metrics(p *process, s state) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	text, err := p.get(ctx, "/metrics")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "gpu_") {
			continue
		}
		i := strings.LastIndex(line, " ")
		name, value := line[:i], strings.TrimSpace(line[i+1:])
		if strings.Contains(strings.ToLower(name), "_energy_") {
			value = "some"
		}
		s[name] = value
	}
	return err
}

// exported tells whether there is a metric with the XID that a GPU has reported.
func exported(s state) bool {
	for name, value := range s {
		if strings.HasPrefix(name, "DCGM_FI_DEV_XID_ERRORS{") && value == xid {
			return true
		}
	}
	return false
}

// xid is one that makes a GPU unhealthy.
const xid = "48"
