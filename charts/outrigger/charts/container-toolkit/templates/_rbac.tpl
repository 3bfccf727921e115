{{- define "container-toolkit.rbac" -}}
{{- if .Values.rbac.create }}
# The agent only checks whether its own DaemonSet is deleted. Then it reverts all changes of its
# node. Otherwise, for example for an update, it keeps them.
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
    verbs: [get, list, watch]
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .) "namespace" (include "outrigger.namespace" .)
  "labels" (include "outrigger.labels" .) "account" (include "outrigger.serviceAccountName" .)) }}
{{- end }}
{{- end -}}
