{{- /* The labels of the presence part, as an expression about the key k. A test in
agents/feature-discovery/internal/label compares them with the agent's. */ -}}
{{- define "feature-discovery.presenceOwnLabel" -}}
k in [
  'nvidia.com/gpu.present',
  'nvidia.com/gpu.deploy.client',
  'nvidia.com/gpu.deploy.container-toolkit',
  'nvidia.com/gpu.deploy.dcgm',
  'nvidia.com/gpu.deploy.dcgm-exporter',
  'nvidia.com/gpu.deploy.device-plugin',
  'nvidia.com/gpu.deploy.driver',
  'nvidia.com/gpu.deploy.gpu-feature-discovery',
  'nvidia.com/gpu.deploy.node-status-exporter',
  'nvidia.com/gpu.deploy.operator-validator',
  'feature.node.kubernetes.io/pci-10de.present',
  'feature.node.kubernetes.io/kernel-version.full',
  'feature.node.kubernetes.io/system-os_release.ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID.major',
  'feature.node.kubernetes.io/system-os_release.OSTREE_VERSION'
]
{{- end -}}
