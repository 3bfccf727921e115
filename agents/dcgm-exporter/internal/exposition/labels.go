package exposition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

// labels are the labels of a metric, in the order of the output. They must not be changed,
// because metrics share them.
type labels []*dto.LabelPair

// with returns a copy of the labels with more labels.
func (l labels) with(more ...Label) labels {
	out := make(labels, len(l), len(l)+len(more))
	copy(out, l)
	for _, m := range more {
		out = append(out, &dto.LabelPair{Name: &m.Name, Value: &m.Value})
	}
	return out
}

// entity is the subject of a metric: a GPU, or one of its GPU instances.
type entity struct {
	gpu      *GPU
	instance uint32
	profile  string
	users    []podresources.User
	labels   labels
}

// whole reports whether the entity is a GPU.
func (e entity) whole() bool { return e.instance == gpu.NoInstance }

// entities returns the GPU, and its GPU instances if it is in MIG mode. If there are instances,
// most metrics are served for the instances and not for the GPU.
func (d *deriver) entities(g *GPU) (whole entity, instances []entity) {
	whole = entity{gpu: g, instance: gpu.NoInstance, users: d.state.Pods[g.UUID]}
	whole.labels = d.identity(whole)
	if g.MIG == nil || !g.MIG.Enabled {
		return whole, nil
	}
	for _, i := range g.MIG.GPUInstances {
		e := entity{gpu: g, instance: i.ID, profile: i.Profile.String()}
		for _, m := range g.MIG.Devices {
			if m.GPUInstance == i.ID {
				e.users = append(e.users, d.state.Pods[m.UUID]...)
				if e.profile == "" {
					e.profile = m.Profile.String()
				}
			}
		}
		e.labels = d.identity(e)
		instances = append(instances, e)
	}
	return whole, instances
}

// Identity returns the labels that identify a GPU.
func Identity(s State, o Options, g GPU) []*dto.LabelPair {
	d := &deriver{Options: o, state: s}
	return d.identity(entity{gpu: &g, instance: gpu.NoInstance})
}

// identity returns the labels that identify a GPU or GPU instance.
func (d *deriver) identity(e entity) labels {
	g := e.gpu
	uuid, model := "UUID", g.Name
	if d.OldNamespace {
		uuid = "uuid"
	}
	if d.ReplaceBlanks {
		model = strings.Join(strings.Fields(model), "-")
	}
	out := labels(nil).with(
		Label{"gpu", strconv.Itoa(g.Index)},
		Label{uuid, string(g.UUID)},
		Label{"pci_bus_id", busID(g.PCI.BusID)},
		Label{"device", "nvidia" + strconv.Itoa(g.Index)},
		Label{"modelName", model},
	)
	if !e.whole() {
		out = out.with(Label{"GPU_I_PROFILE", e.profile}, Label{"GPU_I_ID", strconv.FormatUint(uint64(e.instance), 10)})
	}
	for _, name := range d.Hostname {
		out = out.with(Label{name, d.state.Host})
	}
	return out
}

// busID converts a PCI bus ID of sysfs to the format of NVML: "00000000:17:00.0".
func busID(sysfs string) string {
	if domain, rest, ok := strings.Cut(sysfs, ":"); ok && len(domain) == 4 {
		sysfs = "0000" + domain + ":" + rest
	}
	return strings.ToUpper(sysfs)
}

// textLabels returns the labels that the list of metrics defines.
func (d *deriver) textLabels(g *GPU) []Label {
	var out []Label
	for _, m := range d.Metrics {
		if m.Type != counters.Label {
			continue
		}
		value := ""
		switch m.Field.ID {
		case telemetry.DCGM_FI_SYSTEM_DRIVER_VERSION:
			value = d.state.Driver.Version
		case telemetry.DCGM_FI_SYSTEM_NVML_VERSION:
			value = d.state.Driver.NVMLVersion
		case telemetry.DCGM_FI_DEV_GPU_BRAND:
			value = g.Brand
		default:
			if g.Sample != nil {
				value = g.Sample.Texts[m.Field.ID]
				if number, ok := g.Sample.GPU[m.Field.ValueFrom]; ok {
					value = strconv.FormatFloat(number*m.Field.Scale, 'f', -1, 64)
				}
			}
		}
		if value != "" {
			out = append(out, Label{m.Name, value})
		}
	}
	slices.SortFunc(out, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// view returns an entity with the label sets of its metrics. It has one set for the entity, or one
// for each of its jobs. With VirtualGPUs, it also has one for each container of a shared GPU.
func (d *deriver) view(e entity) view {
	v := view{entity: e, copies: map[int]podresources.User{}}
	base := e.labels.with(d.textLabels(e.gpu)...)
	owner, alone := soleUser(e.users)
	if alone {
		base = base.with(d.podLabels(owner)...)
	}
	var jobs []string
	if d.state.Jobs != nil {
		jobs = slices.Sorted(slices.Values(d.state.Jobs(e.gpu.Index, e.instance)))
	}
	for _, job := range slices.Compact(jobs) {
		v.sets = append(v.sets, base.with(Label{"hpc_job", job}))
	}
	if len(jobs) == 0 {
		v.sets = []labels{base}
	}
	if alone || !d.VirtualGPUs {
		return v
	}
	seen := map[string]bool{}
	for _, u := range e.users {
		one := append(d.podLabels(u), Label{"vgpu", u.Replica})
		if key := fmt.Sprint(one); !seen[key] {
			seen[key] = true
			v.copies[len(v.sets)] = u
			v.sets = append(v.sets, base.with(one...))
		}
	}
	return v
}

// soleUser returns the container that has a device exclusively. If all users are containers of
// one pod, it returns the pod, without the name of a container.
func soleUser(users []podresources.User) (podresources.User, bool) {
	if len(users) == 0 {
		return podresources.User{}, false
	}
	one := users[0]
	for _, u := range users[1:] {
		if u.Namespace != one.Namespace || u.Pod != one.Pod {
			return podresources.User{}, false
		}
		if u.Container != one.Container {
			one.Container = ""
		}
		if u.Claim != one.Claim {
			one.Claim = podresources.Claim{}
		}
	}
	return one, true
}

// podLabels returns the labels of a container: the selected labels of its pod, and then the names
// of the container and the pod.
func (d *deriver) podLabels(u podresources.User) []Label {
	taken := map[string]string{}
	if d.state.Labels != nil {
		for _, l := range d.state.Labels(u) {
			taken[l.Name] = l.Value
		}
	}
	own := d.names(u)
	for _, l := range own {
		delete(taken, l.Name)
	}
	taboo := reserved()
	out := make([]Label, 0, len(taken)+len(own))
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		if !taboo[name] || name == "pod_uid" {
			out = append(out, Label{name, taken[name]})
		}
	}
	return append(out, own...)
}

// Reserved returns the names of the labels that the exporter sets itself.
func Reserved() []string { return slices.Sorted(maps.Keys(reserved())) }

// reserved returns the names of the exporter's labels, which labels of pods must not replace.
func reserved() map[string]bool {
	return map[string]bool{
		"gpu": true, "UUID": true, "uuid": true, "pci_bus_id": true, "device": true, "modelName": true,
		"GPU_I_PROFILE": true, "GPU_I_ID": true, "Hostname": true, "hostname": true, "vgpu": true, "hpc_job": true,
		"pod": true, "namespace": true, "container": true, "pod_name": true, "pod_namespace": true, "container_name": true, "pod_uid": true,
		"err_code": true, "err_msg": true, "xid": true, "window_size_in_ms": true, "clock_event": true,
	}
}

// names returns the labels that name a container and its claim, in the order of their names.
func (d *deriver) names(u podresources.User) []Label {
	container, namespace, pod := "container", "namespace", "pod"
	if d.OldNamespace {
		container, namespace, pod = "container_name", "pod_namespace", "pod_name"
	}
	out := []Label{{container, u.Container}, {namespace, u.Namespace}, {pod, u.Pod}}
	if c := u.Claim; c != (podresources.Claim{}) {
		out = append(out,
			Label{"dra_claim_name", c.Name}, Label{"dra_claim_namespace", c.Namespace}, Label{"dra_device_name", c.Device},
			Label{"dra_driver_name", c.Driver}, Label{"dra_pool_name", c.Pool})
	}
	out = slices.DeleteFunc(out, func(l Label) bool { return l.Value == "" })
	slices.SortFunc(out, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
