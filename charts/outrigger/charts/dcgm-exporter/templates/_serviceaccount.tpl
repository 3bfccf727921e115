{{- define "dcgm-exporter.serviceaccount" -}}
{{- include "outrigger.serviceAccount" (dict "root" . "values" .Values.serviceAccount
  "name" (include "outrigger.serviceAccountName" .) "labels" (include "dcgm-exporter.labels" .)) -}}
{{- end -}}
