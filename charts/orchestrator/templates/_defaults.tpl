{{- /* Written by: go test ./... -update, from values.yaml. */ -}}
{{- define "orchestrator.defaults" -}}
admissionPolicy:
  create: true
affinity:
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - preference:
        matchExpressions:
        - key: node-role.kubernetes.io/control-plane
          operator: Exists
      weight: 1
cleanup:
  enabled: true
  timeoutSeconds: 600
cleanupCRD: false
env: []
extraArgs: []
fullnameOverride: ""
image: null
imagePullSecrets: []
logFormat: json
logLevel: info
metrics:
  localhost: null
  port: 9420
  service:
    annotations: {}
    enabled: false
    labels: {}
  serviceMonitor:
    additionalLabels: {}
    enabled: false
    honorLabels: false
    interval: 15s
    metricRelabelings: []
    relabelings: []
    scrapeTimeout: null
    tlsConfig: {}
  tls:
    secretName: ""
nameOverride: ""
namespaceOverride: ""
networkPolicy:
  enabled: false
  from: []
nodeSelector: {}
podAnnotations: {}
podLabels: {}
priorityClassName: system-cluster-critical
rbac:
  create: true
replicas: 1
resources:
  limits:
    memory: 256Mi
  requests:
    cpu: 10m
    memory: 48Mi
serviceAccount:
  annotations: {}
  create: true
  name: ""
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
- effect: NoSchedule
  key: node-role.kubernetes.io/control-plane
  operator: Exists
upgradeCRD: true
{{- end -}}
