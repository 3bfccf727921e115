{{- define "device-plugin.service" -}}
{{- if .Values.devicePlugin.enabled -}}
{{- include "outrigger.service" . -}}
{{- end -}}
{{- end -}}
