{{- /* Code generated from agents/feature-discovery/internal/label/labels.tsv by "go generate". DO NOT EDIT.
The labels of feature discovery, as an expression about the key k. */ -}}
{{- define "feature-discovery.ownLabel" -}}
k in [
  'nvidia.com/cuda.driver-version.full',
  'nvidia.com/cuda.driver-version.major',
  'nvidia.com/cuda.driver-version.minor',
  'nvidia.com/cuda.driver-version.revision',
  'nvidia.com/cuda.driver.major',
  'nvidia.com/cuda.driver.minor',
  'nvidia.com/cuda.driver.rev',
  'nvidia.com/cuda.runtime-version.full',
  'nvidia.com/cuda.runtime-version.major',
  'nvidia.com/cuda.runtime-version.minor',
  'nvidia.com/cuda.runtime.major',
  'nvidia.com/cuda.runtime.minor',
  'nvidia.com/gfd.timestamp',
  'nvidia.com/gpu.clique',
  'nvidia.com/gpu.machine',
  'nvidia.com/gpu.mode',
  'nvidia.com/mig.capable',
  'nvidia.com/mig.strategy',
  'nvidia.com/mps.capable',
  'nvidia.com/vgpu.host-driver-branch',
  'nvidia.com/vgpu.host-driver-version',
  'nvidia.com/vgpu.present'
] ||
k.matches('^nvidia[.]com/gpu[.](compute[.]major|compute[.]minor|count|engines[.]copy|engines[.]decoder|engines[.]encoder|engines[.]jpeg|engines[.]ofa|family|memory|multiprocessors|product|replicas|sharing-strategy|slices[.]ci|slices[.]gi)$') ||
k.matches('^nvidia[.]com/gpu[.]product-.+[.](compute[.]major|compute[.]minor|count|family|memory|replicas|sharing-strategy)$') ||
k.matches('^nvidia[.]com/mig-([1-9]c[.])?[1-9]g[.][1-9][0-9]{0,3}gb([.]me|[.]me[.]all|[.]gfx|-me)?[.](count|engines[.]copy|engines[.]decoder|engines[.]encoder|engines[.]jpeg|engines[.]ofa|memory|multiprocessors|product|replicas|sharing-strategy|slices[.]ci|slices[.]gi)$')
{{- end -}}
