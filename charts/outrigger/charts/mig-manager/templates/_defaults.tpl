{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "mig-manager.defaults" -}}
admissionPolicy:
  create: true
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: nvidia.com/mig.capable
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.mig-manager
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
      - matchExpressions:
        - key: nvidia.com/gpu.deploy.mig-manager
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
config:
  create: false
  data: {}
  default: ""
  name: ""
  publish: false
cordon: false
env: []
extraArgs: []
fullnameOverride: ""
gpuClientsConfig:
  name: ""
gpuPods: wait
image: null
imagePullSecrets: []
kubeletRootDir: null
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9417
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
reboot: false
resources:
  limits:
    memory: 256Mi
  requests:
    cpu: 5m
    memory: 32Mi
runtimeClassName: null
securityContext:
  privileged: true
  readOnlyRootFilesystem: true
serviceAccount:
  annotations: {}
  create: true
  name: ""
startupTaint: null
stateDir: /var/lib/nvidia-mig-manager
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
