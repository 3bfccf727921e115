{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "outrigger.defaults" -}}
cdi:
  enabled: true
  nriPluginEnabled: false
daemonsets:
  annotations: {}
  labels: {}
  nodeSelector: {}
  podSecurityContext: {}
  priorityClassName: null
  rollingUpdate: {}
  tolerations: []
  updateStrategy: null
dcgmExporter:
  enabled: true
devicePlugin:
  enabled: true
draPlugin:
  enabled: false
driver:
  enabled: null
gfd:
  enabled: true
global:
  config:
    default: ""
    fallbackStrategies:
    - named
    - single
    map: {}
    name: ""
  imagePullPolicy: null
  imagePullSecrets: []
  metrics:
    localhost: null
  migStrategy: null
  namespace: gpu-operator-resources
  nvidiaDevRoot: null
  nvidiaDriverRoot: null
  registry: null
  resourceConfig: null
  startupTaint: outrigger.dev/gpu-not-ready:NoSchedule
hostPaths:
  driverInstallDir: null
  kubeletRootDir: null
  rootFS: null
mig:
  strategy: null
migManager:
  enabled: true
namespace:
  create: true
nfd:
  enabled: false
node-feature-discovery:
  worker:
    config:
      sources:
        pci:
          deviceClassWhitelist:
          - "02"
          - "0300"
          - "0302"
          deviceLabelFields:
          - vendor
operator:
  defaultRuntime: null
  runtimeClass: null
orchestrator:
  enabled: true
pools: []
psa:
  enabled: true
sim:
  enabled: false
  pools:
  - gpus: 8
    model: h100-80
    name: all
    nodeSelector:
      kubernetes.io/os: linux
tags:
  optional: false
toolkit:
  enabled: true
validator:
  enabled: true
{{- end -}}
