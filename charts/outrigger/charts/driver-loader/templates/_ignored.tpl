{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "driver-loader.withoutEffect" -}}
- [livenessProbe, "the agent has its own probes; remove it"]
- [manager.env, "there is no k8s-driver-manager; use upgradePolicy, and driver.env for NODE_LABEL_FOR_GPU_POD_EVICTION"]
- [manager.imagePullPolicy, "both images have the same policy; use imagePullPolicy"]
- [rdma.useHostMofed, "nvidia_peermem works with any driver of the network adapters; remove it"]
- [readinessProbe, "the agent has its own probes; remove it"]
- [startupProbe, "the agent has its own probes; remove it"]
- [useHostMounts, "the agent always uses the driver of a host that has one; remove it"]
{{- end -}}
