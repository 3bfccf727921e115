{{- define "gpu-sim.networkpolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) }}
{{- end }}
{{- end -}}
