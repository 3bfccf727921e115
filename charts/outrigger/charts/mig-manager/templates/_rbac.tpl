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
# Only to see whether the agent's own DaemonSet is deleted, or is not for the node any more:
# then the agent removes what it has published, and otherwise, as in an update, it leaves that.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "outrigger.fullname" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ include "outrigger.fullname" . }}]
    verbs: [get]
---
{{ include "outrigger.eventRights" . }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "mig-manager.admission" .) (include "mig-manager.bindings" .))) }}
{{- end }}
{{- end -}}

{{- define "mig-manager.bindings" -}}
{{- $labels := include "outrigger.labels" . -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" $labels "account" $account) }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .) "namespace" (include "outrigger.namespace" .)
  "labels" $labels "account" $account) }}
---
{{ include "outrigger.eventBinding" . }}
{{- end -}}
