{{- define "dcgm-exporter.networkpolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "dcgm-exporter.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) }}
{{- end }}
{{- end -}}
