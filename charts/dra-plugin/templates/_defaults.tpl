{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "dra-plugin.defaults" -}}
admissionPolicy:
  create: true
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: feature.node.kubernetes.io/pci-10de.present
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.dra-plugin
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
      - matchExpressions:
        - key: nvidia.com/gpu.present
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.dra-plugin
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
cdi:
  nvidiaHookPath: null
deviceClasses:
  create: true
  extendedResourceName: nvidia.com/gpu
devices:
  exclude: []
  include: []
enableHostNetwork: false
env: []
extraArgs: []
fullnameOverride: ""
image: null
imagePullSecrets: []
kubeletRootDir: null
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9411
  service:
    annotations: {}
    enabled: false
    labels: {}
  tls:
    secretName: ""
nameOverride: ""
namespaceOverride: ""
networkPolicy:
  enabled: false
  from: []
nodeSelector: {}
nvidiaDevRoot: null
nvidiaDriverRoot: null
podAnnotations: {}
podLabels: {}
podSecurityContext: {}
priorityClassName: null
procRoot: null
rbac:
  create: true
resources:
  limits:
    memory: 256Mi
  requests:
    cpu: 5m
    memory: 48Mi
securityContext:
  privileged: true
  readOnlyRootFilesystem: true
serviceAccount:
  annotations: {}
  create: true
  name: ""
startupTaint: null
sysRoot: null
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
- effect: NoSchedule
  key: nvidia.com/gpu
  operator: Exists
- key: outrigger.dev/gpu-not-ready
  operator: Exists
toolkit:
  installDir: null
updateStrategy: null
{{- end -}}
