{{- define "gpu-sim.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "gpu-sim.daemonset"
  "gpu-sim.networkpolicy"
  "gpu-sim.rbac"
  "gpu-sim.service"
  "gpu-sim.serviceaccount")) -}}
{{- end -}}
