{{- define "container-toolkit.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
