{{- define "container-toolkit.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "container-toolkit.daemonset"
  "container-toolkit.networkpolicy"
  "container-toolkit.rbac"
  "container-toolkit.runtimeclass"
  "container-toolkit.service"
  "container-toolkit.serviceaccount")) -}}
{{- end -}}
