{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "feature-discovery.defaults" -}}
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
        - key: nvidia.com/gpu.deploy.gpu-feature-discovery
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
        - key: nvidia.com/gpu.deploy.gpu-feature-discovery
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
        - key: nvidia.com/gpu.deploy.gpu-feature-discovery
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
config:
  default: ""
  fallbackStrategies:
  - named
  - single
  map: {}
  name: ""
deviceDiscoveryStrategy: null
enableHostNetwork: false
env: []
events:
  enabled: true
extraArgs: []
failOnInitError: null
fullnameOverride: ""
image: null
imagePullSecrets: []
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9413
  service:
    annotations: {}
    enabled: false
    labels: {}
  tls:
    secretName: ""
migStrategy: null
nameOverride: ""
namespaceOverride: ""
networkPolicy:
  enabled: false
  from: []
noTimestamp: null
nodeSelector: {}
nvidiaDevRoot: null
nvidiaDriverRoot: null
outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd
podAnnotations: {}
podLabels: {}
podSecurityContext: {}
presence:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: type
            operator: NotIn
            values:
            - virtual-kubelet
          - key: eks.amazonaws.com/compute-type
            operator: NotIn
            values:
            - fargate
  enabled: true
  env: []
  extraArgs: []
  nodeSelector:
    kubernetes.io/os: linux
  osRelease: /etc/os-release
  port: 9414
  resources:
    limits:
      memory: 128Mi
    requests:
      cpu: 2m
      memory: 16Mi
  serviceAccount:
    annotations: {}
    create: true
    name: ""
  tolerations:
  - operator: Exists
  updateStrategy:
    rollingUpdate:
      maxUnavailable: 10%
    type: RollingUpdate
priorityClassName: null
procRoot: null
publish: node
rbac:
  create: true
readyChain: null
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
sleepInterval: null
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
updateStrategy: null
{{- end -}}
