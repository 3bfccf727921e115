{{- define "feature-discovery.serviceaccount" -}}
{{- include "outrigger.serviceAccount" (dict "root" . "values" .Values.serviceAccount
  "name" (include "outrigger.serviceAccountName" .) "labels" (include "outrigger.labels" .)) }}
{{- if .Values.presence.enabled }}
---
{{ include "outrigger.serviceAccount" (dict "root" . "values" .Values.presence.serviceAccount
  "name" (include "feature-discovery.presenceServiceAccountName" .) "labels" (include "feature-discovery.presenceLabels" .)) }}
{{- end }}
{{- end -}}
