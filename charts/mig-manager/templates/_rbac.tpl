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
  # The agent's own Node: the label with the desired config, the state, and the cordon.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch, patch]
  # The agent checks whether a pod in the kubelet's list has ended.
  - apiGroups: [""]
    resources: [pods]
    verbs: [get]
  {{- if eq .Values.gpuPods "evict" }}
  - apiGroups: [""]
    resources: [pods/eviction]
    verbs: [create]
  {{- end }}
---
# The agent only checks whether its own DaemonSet is deleted, or no longer selects the node. Then it
# removes the fields that it has published. Otherwise, for example for an update, it keeps them.
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
  {{- if (default dict .Values.config).publish }}
  # The ConfigMap has the name of the node, which a role cannot know. An admission policy keeps the agent
  # from all others.
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [create, patch]
  {{- end }}
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
