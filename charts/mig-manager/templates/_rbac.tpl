{{- define "mig-manager.rbac" -}}
{{- if .Values.rbac.create }}
{{- $labels := include "outrigger.labels" . }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # Its own Node: the label that it follows, the state, and the cordon.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch, patch]
  # Whether a pod that the kubelet lists has ended.
  - apiGroups: [""]
    resources: [pods]
    verbs: [get]
  {{- if eq .Values.gpuPods "evict" }}
  - apiGroups: [""]
    resources: [pods/eviction]
    verbs: [create]
  {{- end }}
---
{{ include "outrigger.eventRights" . }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "mig-manager.admission" .) (include "mig-manager.bindings" .))) }}
{{- end }}
{{- end -}}

{{- define "mig-manager.bindings" -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" (include "outrigger.labels" .)
  "account" (include "outrigger.serviceAccountName" .)) }}
---
{{ include "outrigger.eventBinding" . }}
{{- end -}}
