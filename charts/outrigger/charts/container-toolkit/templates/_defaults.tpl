{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "container-toolkit.defaults" -}}
acceptCDIAnnotations: null
acceptVisibleDevicesEnvvar: false
acceptVisibleDevicesVolumeMounts: false
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: feature.node.kubernetes.io/pci-10de.present
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.container-toolkit
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
        - key: nvidia.com/gpu.deploy.container-toolkit
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
cdi:
  enabled: null
  nriPluginEnabled: null
env: []
extraArgs: []
fullnameOverride: ""
image: null
imagePullSecrets: []
installDir: null
kubeletRootDir: null
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9415
  service:
    annotations: {}
    enabled: false
    labels: {}
  tls:
    secretName: ""
mode: null
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
    memory: 32Mi
runtime:
  config: null
  configure: true
  dropInConfig: null
  enableCDI: true
  engine: null
  name: null
  restartMode: null
  setAsDefault: false
  socket: null
runtimeClass:
  create: true
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
updateStrategy: null
{{- end -}}
