package doctor_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// said makes the answer of device-plugin explain about the GPUs 0 and 3. A kind is the code of the cause, or "" for a healthy GPU.
func (c *cluster) said(zero, three cause.Code, others ...cause.Code) {
	device := func(index string, kind cause.Code) map[string]any {
		return map[string]any{"index": index, "uuid": "GPU-" + index, "healthy": kind == "", "kind": kind, "reason": "it says so"}
	}
	out := []any{}
	for i, kind := range others {
		out = append(out, device(fmt.Sprint(8+i), kind))
	}
	c.answers(facts.DevicePlugin, node, encoded(map[string]any{
		"resources": []any{map[string]any{"name": gpu, "devices": []any{device("0", zero), device("3", three)}}}, "notOffered": out,
	}), "", "explain", "--output=json")
}

// TestEventsOfDevices has Events about several devices of a node, and the present answer of the device plugin.
// Events have their times in seconds, and are listed by their names, which are random.
func TestEventsOfTheSameSecond(t *testing.T) {
	c := healthy(node)
	offer(c.node(node), gpu, 7, 8)
	for version, event := range map[string][2]string{
		"10": {"DeviceUnhealthy", "lost: nvidia.com/gpu 0 GPU-8bbb9494: gpu is lost"}, "9": {"DeviceHealthy", "nvidia.com/gpu 0 GPU-8bbb9494: healthy again"},
	} {
		c.event("Node", "", node, event[0], event[1])
		c.Events[len(c.Events)-1].ResourceVersion = version
	}
	slices.SortFunc(c.Events, func(a, b *corev1.Event) int { return cmp.Compare(b.ResourceVersion, a.ResourceVersion) })
	for range 2 { // in both orders
		if r := doctor.Diagnose(c.Facts, onNode()); len(r.Findings) == 0 || r.Findings[0].Code != cause.DeviceLost {
			t.Errorf("the GPU was lost last, but the report is\n%s", text(r))
		}
		slices.Reverse(c.Events)
	}
}

func TestEventsOfDevices(t *testing.T) {
	sick := func(c *cluster, code cause.Code, devices string) {
		c.event("Node", "", node, "DeviceUnhealthy", string(code)+": nvidia.com/gpu "+devices+": xid 79")
	}
	healthyAgain := func(c *cluster, devices string) {
		c.event("Node", "", node, "DeviceHealthy", "nvidia.com/gpu "+devices+": healthy again")
	}
	for name, tc := range map[string]struct {
		happens func(c *cluster)
		// offered is the number of allocatable GPUs of 8.
		offered int64
		want    []cause.Code
		// has are parts of the first evidence, and lacks is in none.
		has   []string
		lacks string
	}{
		"another device is healthy again": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			sick(c, "xid", "0 GPU-0")
			healthyAgain(c, "0 GPU-0")
		}, 7, []cause.Code{cause.DeviceXID}, []string{"GPU-3"}, "GPU-0"},
		"all devices of an Event are healthy again, one by one": {func(c *cluster) {
			sick(c, "xid", "0 GPU-0, 3 GPU-3")
			healthyAgain(c, "0 GPU-0")
			healthyAgain(c, "3 GPU-3")
		}, 7, nil, nil, "xid"},
		"one device of an Event is healthy again": {func(c *cluster) {
			sick(c, "xid", "0 GPU-0, 3 GPU-3")
			healthyAgain(c, "0 GPU-0")
		}, 7, []cause.Code{cause.DeviceXID}, []string{"GPU-3"}, ""},
		"two devices have the same cause": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			sick(c, "xid", "0 GPU-0")
		}, 6, []cause.Code{cause.DeviceXID}, []string{"GPU-0", "GPU-3"}, ""},
		"two devices have different causes": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			sick(c, "memory", "0 GPU-0")
		}, 6, []cause.Code{cause.DeviceMemory, cause.DeviceXID}, []string{"GPU-0"}, ""},
		"a device is sick for the second time": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			healthyAgain(c, "3 GPU-3")
			sick(c, "memory", "3 GPU-3")
		}, 7, []cause.Code{cause.DeviceMemory}, []string{"GPU-3"}, "xid:"},
		"the license of another virtual GPU has arrived": {func(c *cluster) {
			c.event("Node", "", node, "VGPULicenseLost", "GPU 00000000:03:00.0: vWS: Unlicensed. Without a license, the GPU becomes slow: see the log")
			c.event("Node", "", node, "VGPULicenseLost", "GPU 00000000:04:00.0: vWS: Unlicensed. Without a license, the GPU becomes slow: see the log")
			c.event("Node", "", node, "VGPULicensed", "GPU 00000000:04:00.0: vWS: Licensed")
		}, 8, []cause.Code{cause.VGPULicenseLost}, []string{":03:"}, ":04:"},
		"the plugin names two devices with one cause": {func(c *cluster) { c.said(cause.Code("fault"), cause.Code("fault")) }, 6, []cause.Code{cause.DeviceFault}, []string{"GPU-0", "GPU-3"}, ""},
		"the plugin says that the device is healthy": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			c.said(cause.Code("fault"), "")
		}, 7, []cause.Code{cause.DeviceFault}, []string{"GPU-0"}, "GPU-3"},
		"the plugin knows more devices with the cause": {func(c *cluster) {
			sick(c, "memory", "3 GPU-3")
			c.said(cause.Code("memory"), cause.Code("memory"))
		}, 6, []cause.Code{cause.DeviceMemory}, []string{"GPU-0", "GPU-3"}, ""},
		"the plugin has only a sign of the XID": {func(c *cluster) {
			sick(c, "xid", "3 GPU-3")
			c.said("", cause.Code("lost"))
		}, 7, []cause.Code{cause.DeviceLost, cause.DeviceXID}, []string{"GPU-3"}, ""},
		"the layout was corrected": {func(c *cluster) {
			c.event("Node", "", node, "DeviceNotOffered", "mig: 3 GPU-3: the strategy single has no resource for it")
			c.said("", "")
		}, 8, nil, nil, "GPU-3"},
		"the layout was corrected, and another device cannot be offered": {func(c *cluster) {
			c.event("Node", "", node, "DeviceNotOffered", "mig: 3 GPU-3: the strategy single has no resource for it")
			c.said("", "", cause.Code("config"), cause.Code("excluded"))
		}, 8, []cause.Code{cause.DeviceConfig}, []string{"GPU-8"}, "GPU-3"},
		"the config was corrected":             {func(c *cluster) { c.refused(facts.DevicePlugin); c.said("", "") }, 8, nil, nil, ""},
		"feature discovery has another config": {func(c *cluster) { c.refused(facts.FeatureDiscovery); c.said("", "") }, 8, []cause.Code{cause.ConfigRefused}, nil, ""},
		"a label of the node selects the config": {func(c *cluster) {
			c.refused(facts.DevicePlugin)
			c.said("", "")
			c.node(node).Labels["nvidia.com/device-plugin.config"] = "b"
		}, 8, []cause.Code{cause.ConfigRefused}, nil, ""},
		"the plugin cannot use the config": {func(c *cluster) {
			c.refused(facts.DevicePlugin)
			c.answers(facts.DevicePlugin, node, "", "line 3: unknown field", "explain")
		}, 8, []cause.Code{cause.ConfigRefused}, nil, ""},
		"the plugin has restarted since the config": {func(c *cluster) { c.refused(facts.DevicePlugin); c.started(facts.DevicePlugin, time.Second) }, 8, nil, nil, ""},
		"the plugin started before the config":      {func(c *cluster) { c.refused(facts.DevicePlugin); c.started(facts.DevicePlugin, time.Hour) }, 8, []cause.Code{cause.ConfigRefused}, nil, ""},
		"another agent has restarted":               {func(c *cluster) { c.refused(facts.DevicePlugin); c.started(facts.FeatureDiscovery, time.Second) }, 8, []cause.Code{cause.ConfigRefused}, nil, ""},
	} {
		for _, target := range []facts.Target{onNode(), {}} {
			t.Run(name+", "+target.String(), func(t *testing.T) {
				c := healthy(node)
				offer(c.node(node), gpu, tc.offered, 8)
				tc.happens(c)
				r := doctor.Diagnose(c.Facts, target)
				var got []cause.Code
				for _, f := range r.Findings {
					if f.Code == cause.GPUsFaulty { // of the kubelet
						continue
					}
					if got = append(got, f.Code); tc.lacks != "" && strings.Contains(f.Evidence, tc.lacks) {
						t.Errorf("the evidence has %q: %s", tc.lacks, f.Evidence)
					}
				}
				slices.Sort(got)
				if !slices.Equal(got, tc.want) {
					t.Fatalf("want %v, got:\n%s", tc.want, text(r))
				}
				for _, part := range tc.has {
					if i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == tc.want[0] }); !strings.Contains(r.Findings[i].Evidence, part) {
						t.Errorf("no %q in: %s", part, r.Findings[i].Evidence)
					}
				}
			})
		}
	}
}

// refused adds the Event of an agent that rejects a config.
func (c *cluster) refused(agent string) {
	c.event("Node", "", node, "ConfigRefused", "config.yaml: line 3: unknown field")
	c.Events[len(c.Events)-1].Source = corev1.EventSource{Component: agent}
}

func (c *cluster) started(agent string, before time.Duration) {
	c.agent(agent, node).Status.ContainerStatuses[0].State.Running.StartedAt = ago(before)
}

// TestNodesToLookAtClosely has more and fewer nodes than a diagnosis asks.
func TestNodesToLookAtClosely(t *testing.T) {
	for name, tc := range map[string]struct{ broken, faulty, doubtful, want int }{
		"healthy nodes": {0, 0, 0, 0}, "all kinds": {4, 3, 3, 10}, "no room for the others": {4, 4, 3, 4}, "too many": {11, 0, 0, 0}, "only others": {0, 5, 5, 10}, "too many others": {0, 6, 5, 0},
	} {
		c := healthy("well")
		for i := range tc.broken + tc.faulty + tc.doubtful {
			n := c.addNode(fmt.Sprintf("n%02d", i))
			switch {
			case i < tc.broken:
				c.unready(n.Name, cause.ToolkitNotReady)
			case i < tc.broken+tc.faulty:
				offer(n, gpu, 7, 8)
			default:
				c.event("Node", "", n.Name, []string{"DeviceNotOffered", "ConfigRefused"}[i%2], "it is so")
			}
		}
		if got := doctor.Closely(c.Facts); len(got) != tc.want || slices.Contains(got, "well") {
			t.Errorf("%s: %v, want %d nodes", name, got, tc.want)
		}
	}
}

// TestAnArchiveSaysTheSame has too many nodes to look at each closely: only an archive has their pods and answers.
func TestAnArchiveSaysTheSame(t *testing.T) {
	c := healthy(node)
	c.refused(facts.DevicePlugin)
	c.started(facts.DevicePlugin, time.Second)
	c.said("", "")
	for i := range 10 {
		offer(c.addNode(fmt.Sprintf("n1%d", i)), gpu, 7, 8)
	}
	archive := text(doctor.Diagnose(c.Facts, facts.Target{}))
	c.Pods, c.Answers = nil, nil
	if live := text(doctor.Diagnose(c.Facts, facts.Target{})); live != archive || !strings.Contains(live, "ConfigRefused") {
		t.Errorf("live:\n%s\narchive:\n%s", live, archive)
	}
}
