{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "validator.defaults" -}}
affinity: null
args: []
driver:
  enabled: true
  env: []
  nodes: "1"
  report: true
  runtimeClassName: nvidia
env: []
image: null
imagePullSecrets: []
nameOverride: ""
namespaceOverride: ""
nodeSelector: {}
plugin:
  enabled: true
  env: []
  nodes: "1"
  resource: nvidia.com/gpu
  runtimeClassName: null
podAnnotations: {}
podLabels: {}
priorityClassName: null
resources:
  requests:
    cpu: 10m
    memory: 64Mi
startupTaint: null
timeoutSeconds: 300
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
- key: nvidia.com/gpu
  operator: Exists
- key: outrigger.dev/gpu-not-ready
  operator: Exists
{{- end -}}
