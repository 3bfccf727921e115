{{- define "driver-loader.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
