{{- define "dra-plugin.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
