{{- define "mig-manager.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
