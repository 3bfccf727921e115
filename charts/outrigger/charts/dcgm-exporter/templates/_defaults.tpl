{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "dcgm-exporter.defaults" -}}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: feature.node.kubernetes.io/pci-10de.present
          operator: In
          values:
          - "true"
        - key: nvidia.com/gpu.deploy.dcgm-exporter
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
        - key: nvidia.com/gpu.deploy.dcgm-exporter
          operator: NotIn
          values:
          - "false"
        - key: nvidia.com/gpu.deploy.operands
          operator: NotIn
          values:
          - "false"
collectInterval: null
config:
  create: false
  data: ""
  key: dcgm-metrics.csv
  name: ""
customMetrics: ""
dashboards:
  annotations: {}
  enabled: false
  labels:
    grafana_dashboard: "1"
enablePodLabels: false
enablePodUID: false
env: []
extraArgs: []
fullnameOverride: ""
hostPID: true
hostnameLabel: null
hpcJobMapping:
  directory: /var/lib/dcgm-exporter/job-mapping
  enabled: false
image: null
imagePullSecrets: []
kubeletRootDir: null
logFormat: json
logLevel: info
metricNames: null
metrics:
  localhost: null
  port: 9400
  tls:
    secretName: ""
migGPUMetrics: null
nameOverride: ""
namespaceOverride: ""
networkPolicy:
  enabled: false
  from: []
nodeSelector: {}
nvidiaDevRoot: null
nvidiaDriverRoot: null
podAnnotations: {}
podLabelAllowlistRegex: []
podLabels: {}
podMonitor:
  additionalLabels: {}
  enabled: false
  honorLabels: false
  interval: 15s
  metricRelabelings: []
  relabelings: []
  scrapeTimeout: null
  tlsConfig: {}
podSecurityContext: {}
priorityClassName: null
procRoot: null
prometheusRule:
  additionalLabels: {}
  agents: true
  enabled: false
rbac:
  create: true
resources:
  limits:
    memory: 256Mi
  requests:
    cpu: 10m
    memory: 32Mi
runtimeClassName: null
securityContext:
  privileged: true
  readOnlyRootFilesystem: true
service:
  annotations:
    prometheus.io/scrape: "true"
  enabled: null
  internalTrafficPolicy: null
  labels: {}
  type: ClusterIP
serviceAccount:
  annotations: {}
  create: true
  name: ""
serviceMonitor:
  additionalLabels: {}
  enabled: false
  honorLabels: false
  interval: 15s
  metricRelabelings: []
  relabelings: []
  scrapeTimeout: null
  tlsConfig: {}
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
