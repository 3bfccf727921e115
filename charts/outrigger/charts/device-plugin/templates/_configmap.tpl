{{- define "device-plugin.configmap" -}}
{{- include "outrigger.configMap" . -}}
{{- end -}}
