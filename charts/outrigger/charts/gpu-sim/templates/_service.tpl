{{- define "gpu-sim.service" -}}
{{- include "outrigger.service" . -}}
{{- end -}}
