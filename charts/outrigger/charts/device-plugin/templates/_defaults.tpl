{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "device-plugin.defaults" -}}
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
        - key: nvidia.com/gpu.deploy.device-plugin
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
      - matchExpressions:
        - key: feature.node.kubernetes.io/cpu-model.vendor_id
          operator: In
          values:
          - NVIDIA
        - key: nvidia.com/gpu.deploy.device-plugin
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
        - key: nvidia.com/gpu.deploy.device-plugin
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
cdi:
  disableHooks: null
  featureFlags: null
  nvidiaHookPath: null
compatWithCPUManager: null
config:
  default: ""
  fallbackStrategies:
  - named
  - single
  map: {}
  name: ""
deviceDiscoveryStrategy: null
deviceIDStrategy: null
deviceListStrategy: null
devicePlugin:
  enableHostNetwork: false
  enabled: true
env: []
events:
  enabled: true
extraArgs: []
failOnInitError: null
fullnameOverride: ""
gdrcopyEnabled: null
gdsEnabled: null
image: null
imagePullSecrets: []
imex:
  channelIDs: null
  required: null
kubeletRootDir: null
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9410
  service:
    annotations: {}
    enabled: false
    labels: {}
  tls:
    secretName: ""
migStrategy: null
mofedEnabled: null
mps:
  enableHostNetwork: false
  enableHostPID: true
  enabled: null
  nodeSelector:
    nvidia.com/mps.capable: "true"
  port: 9412
  resources:
    requests:
      cpu: 5m
      memory: 24Mi
  root: /run/nvidia/mps
  updateStrategy:
    type: OnDelete
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
resourceConfig: null
resources:
  limits:
    memory: 256Mi
  requests:
    cpu: 5m
    memory: 24Mi
runtimeClassName: null
securityContext:
  privileged: true
  readOnlyRootFilesystem: true
selectorLabelsOverride: {}
serviceAccount:
  annotations: {}
  create: true
  name: ""
sharedDevicesAllocationPolicy: null
startupTaint: null
sysRoot: null
test:
  image:
    repository: null
    tag: ""
  resource: nvidia.com/gpu
  runtimeClassName: null
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
