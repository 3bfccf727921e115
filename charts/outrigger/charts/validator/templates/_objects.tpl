{{- define "validator.objects" -}}
{{- include "validator.check" . -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list "validator.driver" "validator.plugin")) -}}
{{- end -}}
