{{- define "dra-plugin.rbac" -}}
{{- if .Values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "outrigger.rbacName" . }}
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
rules:
  # The plugin publishes the devices of its node. RBAC cannot restrict this to the plugin's own
  # node. The admission policy does.
  - apiGroups: [resource.k8s.io]
    resources: [resourceslices]
    verbs: [create, delete, get, list, update, watch]
  # The plugin reads the allocation of a claim when the kubelet prepares it.
  - apiGroups: [resource.k8s.io]
    resources: [resourceclaims]
    verbs: [get]
  # The plugin's own Node owns its ResourceSlices.
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get]
{{- end }}
---
{{ include "outrigger.inOrder" (dict "name" (include "outrigger.rbacName" .)
  "objects" (list (include "dra-plugin.admission" .) (include "dra-plugin.bindings" .))) }}
{{- end -}}
