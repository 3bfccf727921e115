{{- define "feature-discovery.rbac" -}}
{{- if .Values.rbac.create }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "outrigger.labels" . }}
{{- if include "feature-discovery.usesAPI" . }}
# All nodes share one service account, so this rule cannot list Node names. The agent requests only
# its own Node, also to check whether its DaemonSet still selects the Node. The admission policy
# rejects changes of other Nodes.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list{{ if include "feature-discovery.readsNode" . }}, watch{{ end }}]
  {{- if or (eq .Values.publish "node") (include "feature-discovery.taint" .) }}
  # For labels and the start-up taint. The agent reads the position of the taint in the list first.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [{{ if include "feature-discovery.taint" . }}get, {{ end }}patch]
  {{- end }}
  {{- if include "feature-discovery.readyChain" . }}
  # For the condition GPUReady.
  - apiGroups: [""]
    resources: [nodes/status]
    verbs: [patch]
  {{- end }}
{{- $name := include "outrigger.fullname" . }}
{{- $namespace := include "outrigger.namespace" . }}
---
# The agent only checks whether its own DaemonSet is deleted, or no longer selects the node. Then it
# removes the fields that it has published. Otherwise, for example for an update, it keeps them.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ $name }}]
    verbs: [get]
  {{- if eq .Values.publish "nodefeature" }}
  # The NodeFeature of the node, and the agent's pod. The pod's DaemonSet owns the NodeFeature.
  - apiGroups: [nfd.k8s-sigs.io]
    resources: [nodefeatures]
    verbs: [get, create, patch]
  - apiGroups: [""]
    resources: [pods]
    verbs: [get]
  {{- end }}
{{- end }}
{{- if .Values.events.enabled }}
---
{{ include "outrigger.eventRights" . }}
{{- end }}
{{- if .Values.presence.enabled }}
{{- $name := include "feature-discovery.presenceRBACName" . }}
{{- $labels := include "feature-discovery.presenceLabels" . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "feature-discovery.presenceName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  # As above.
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ include "feature-discovery.presenceName" . }}]
    verbs: [get]
{{- end }}
{{- end }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "feature-discovery.admission" .) (include "feature-discovery.bindings" .))) }}
{{- end -}}
