{{- define "driver-loader.rbac" -}}
{{- if .Values.rbac.create }}
{{- $labels := include "outrigger.labels" . }}
# An upgrade of a node that has work cordons the node, and evicts pods that use GPUs.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # Its own Node: a role cannot name it.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch, patch]
  - apiGroups: [""]
    resources: [pods]
    verbs: [list]
  - apiGroups: [""]
    resources: [pods/eviction]
    verbs: [create]
  # Which pods have GPUs by a claim.
  - apiGroups: [resource.k8s.io]
    resources: [resourceclaims]
    verbs: [get]
---
# Why the node waits.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "outrigger.fullname" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [driver-upgrades]
    verbs: [list, watch]
  # Whether the agent's own DaemonSet is deleted, or is not for the node any more: then the agent
  # removes what it has published.
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ include "outrigger.fullname" . }}]
    verbs: [get]
---
{{ include "driver-loader.upgradesRights" . }}
---
{{ include "outrigger.eventRights" . }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "driver-loader.admission" .) (include "driver-loader.bindings" .))) }}
{{- end }}
{{- end -}}
