{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "gpu-sim.defaults" -}}
admissionPolicy:
  create: true
env: []
extraArgs: []
fullnameOverride: ""
image: null
imagePullSecrets: []
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9419
  service:
    annotations: {}
    enabled: false
    labels: {}
  tls:
    secretName: ""
models: {}
nameOverride: ""
namespaceOverride: ""
networkPolicy:
  enabled: false
  from: []
nodeSelector: {}
nri:
  enabled: true
podAnnotations: {}
podLabels: {}
pools: []
priorityClassName: null
rbac:
  create: true
resources:
  limits:
    memory: 128Mi
  requests:
    cpu: 5m
    memory: 24Mi
securityContext:
  privileged: true
  readOnlyRootFilesystem: true
serviceAccount:
  annotations: {}
  create: true
  name: ""
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
- effect: NoSchedule
  key: nvidia.com/gpu
  operator: Exists
- key: outrigger.dev/gpu-not-ready
  operator: Exists
updateStrategy: null
{{- end -}}
