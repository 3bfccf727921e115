{{- define "driver-loader.rbac" -}}
{{- if .Values.rbac.create }}
{{- $labels := include "outrigger.labels" . }}
# An upgrade of a node with work cordons the node, and evicts the pods that use GPUs.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # The agent uses only its own Node, but a role cannot name it.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch, patch]
  # For the condition GPUOptionalModulesLoaded.
  - apiGroups: [""]
    resources: [nodes/status]
    verbs: [patch]
  - apiGroups: [""]
    resources: [pods]
    verbs: [list]
  - apiGroups: [""]
    resources: [pods/eviction]
    verbs: [create]
  # The agent reads which pods have GPUs from a claim.
  - apiGroups: [resource.k8s.io]
    resources: [resourceclaims]
    verbs: [get]
---
# Events say why the node waits.
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
  # The agent checks whether its own DaemonSet is deleted, or no longer selects the node. Then it
  # removes the fields that it has published.
  - apiGroups: [apps]
    resources: [daemonsets]
    {{- /* The names follow from the nodes. */ -}}
    {{- if not (include "driver-loader.perNode" .) }}
    resourceNames: [{{ include "outrigger.fullname" . }}]
    {{- end }}
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
