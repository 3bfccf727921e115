{{- define "container-toolkit.rbac" -}}
{{- if .Values.rbac.create }}
# Only to see whether the agent's own DaemonSet is deleted: then it takes back all
# changes of its node, and otherwise, as in an update, it leaves them.
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
