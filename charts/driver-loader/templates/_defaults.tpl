{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "driver-loader.defaults" -}}
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
        - key: nvidia.com/gpu.deploy.driver
          operator: NotIn
          values:
          - "false"
          - pre-installed
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
      - matchExpressions:
        - key: nvidia.com/gpu.present
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.driver
          operator: NotIn
          values:
          - "false"
          - pre-installed
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
certConfig:
  name: ""
driverVersion: null
env: []
extraArgs: []
fullnameOverride: ""
gdrcopy:
  enabled: false
  image: null
  repository: null
  version: null
gds:
  enabled: false
  image: null
  repository: null
  version: null
image: null
imagePullPolicy: null
imagePullSecrets: []
kernelModuleConfig:
  name: ""
kernelModuleType: null
licensingConfig:
  configMapName: ""
  nlsEnabled: true
  secretName: ""
logFormat: json
logLevel: info
manager:
  image: null
  repository: null
  version: null
maxThreads: null
metrics:
  localhost: null
  port: 9416
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
payload: null
podAnnotations: {}
podLabels: {}
podSecurityContext: {}
priorityClassName: null
rbac:
  create: true
rdma:
  enabled: false
replaceForeignDriver: false
repoConfig:
  configMapName: ""
  destinationDir: ""
repository: null
resources:
  requests:
    cpu: 5m
    memory: 32Mi
securityContext:
  privileged: true
serviceAccount:
  annotations: {}
  create: true
  name: ""
signing:
  secretName: ""
startupTaint: null
store: /var/lib/outrigger/driver
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
- effect: NoSchedule
  key: nvidia.com/gpu
  operator: Exists
- key: outrigger.dev/gpu-not-ready
  operator: Exists
updateStrategy:
  rollingUpdate:
    maxUnavailable: 100%
  type: RollingUpdate
upgradePolicy:
  autoUpgrade: true
  drain:
    deleteEmptyDir: false
    enable: false
    force: false
    podSelector: ""
    timeoutSeconds: 300
  gpuPodDeletion:
    deleteEmptyDir: false
    force: false
    timeoutSeconds: 300
  maxFailures: 1
  maxParallelUpgrades: 1
  maxUnavailable: 25%
  skipCordoned: false
  waitForCompletion:
    podSelector: ""
    timeoutSeconds: 0
upgrades:
  resources:
    limits:
      memory: 256Mi
    requests:
      cpu: 2m
      memory: 32Mi
useOpenKernelModules: null
usePrecompiled: false
version: null
{{- end -}}
