{{- define "mig-manager.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "mig-manager.configmap"
  "mig-manager.daemonset"
  "mig-manager.networkpolicy"
  "mig-manager.rbac"
  "mig-manager.service"
  "mig-manager.serviceaccount")) -}}
{{- end -}}
