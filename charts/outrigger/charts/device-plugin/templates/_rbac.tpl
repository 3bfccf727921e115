{{- define "device-plugin.rbac" -}}
{{- if .Values.rbac.create }}
{{- if include "outrigger.configMapName" . }}
# The label of the agent's Node selects its config. All nodes share one service
# account, so this rule cannot list Node names. The agent requests only its own
# Node, and only its metadata.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list, watch]
{{- end }}
{{- if and .Values.events.enabled .Values.devicePlugin.enabled }}
---
{{ include "outrigger.eventRights" . }}
{{- end }}
{{- if include "device-plugin.cleansUp" . }}
---
# The agent only checks whether its own DaemonSet is deleted. Then it removes its CDI specs.
# Otherwise, for example for an update, it keeps them.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "outrigger.fullname" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
rules:
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [{{ include "outrigger.fullname" . }}]
    verbs: [get]
{{- end }}
{{- end }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "device-plugin.admission" .) (include "device-plugin.bindings" .))) }}
{{- end -}}
