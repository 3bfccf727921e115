{{- define "feature-discovery.configmap" -}}
{{- include "outrigger.configMap" . -}}
{{- end -}}
