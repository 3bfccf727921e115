{{- define "feature-discovery.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
