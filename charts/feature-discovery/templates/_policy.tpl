{{- /* The labels of each part, as a CEL expression on the key k. The agent has the same labels in
agents/feature-discovery/internal/label, and a test there compares both. */ -}}
{{- define "feature-discovery.ownLabel" -}}
k in [
  'nvidia.com/gfd.timestamp',
  'nvidia.com/cuda.driver.major', 'nvidia.com/cuda.driver.minor', 'nvidia.com/cuda.driver.rev',
  'nvidia.com/cuda.driver-version.full', 'nvidia.com/cuda.driver-version.major',
  'nvidia.com/cuda.driver-version.minor', 'nvidia.com/cuda.driver-version.revision',
  'nvidia.com/cuda.runtime.major', 'nvidia.com/cuda.runtime.minor',
  'nvidia.com/cuda.runtime-version.full', 'nvidia.com/cuda.runtime-version.major', 'nvidia.com/cuda.runtime-version.minor',
  'nvidia.com/gpu.clique', 'nvidia.com/gpu.machine', 'nvidia.com/gpu.mode',
  'nvidia.com/mig.capable', 'nvidia.com/mig.strategy', 'nvidia.com/mps.capable',
  'nvidia.com/vgpu.present', 'nvidia.com/vgpu.host-driver-version', 'nvidia.com/vgpu.host-driver-branch'
] ||
k.matches('^nvidia[.]com/gpu[.](compute[.](major|minor)|count|engines[.](copy|decoder|encoder|jpeg|ofa)|family|memory|multiprocessors|product|replicas|sharing-strategy|slices[.](ci|gi))$') ||
k.matches('^nvidia[.]com/gpu[.]product-.+[.](compute[.](major|minor)|count|family|memory|replicas|sharing-strategy)$') ||
k.matches('^nvidia[.]com/mig-([1-9]c[.])?[1-9]g[.][1-9][0-9]{0,3}gb([.]me|[.]me[.]all|[.]gfx|-me)?[.](count|engines[.](copy|decoder|encoder|jpeg|ofa)|memory|multiprocessors|product|replicas|sharing-strategy|slices[.](ci|gi))$')
{{- end -}}

{{- define "feature-discovery.presenceOwnLabel" -}}
k in [
  'nvidia.com/gpu.present',
  'feature.node.kubernetes.io/pci-10de.present',
  'feature.node.kubernetes.io/kernel-version.full',
  'feature.node.kubernetes.io/system-os_release.ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID.major',
  'feature.node.kubernetes.io/system-os_release.OSTREE_VERSION'
]
{{- end -}}
