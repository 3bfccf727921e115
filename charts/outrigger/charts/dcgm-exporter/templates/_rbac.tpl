{{- define "dcgm-exporter.rbac" -}}
{{- if and .Values.rbac.create (include "dcgm-exporter.readsPods" .) }}
{{- $name := include "outrigger.rbacName" . }}
{{- $labels := include "dcgm-exporter.labels" . }}
# All nodes share one service account, so this rule cannot name pods. The agent requests only the
# pods of its own node.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch]
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" $name "labels" $labels "account" (include "outrigger.serviceAccountName" .)) }}
{{- end }}
{{- end -}}
