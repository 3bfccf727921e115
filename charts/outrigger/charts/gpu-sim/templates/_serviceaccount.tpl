{{- define "gpu-sim.serviceaccount" -}}
{{- include "outrigger.serviceAccount" (dict "root" . "values" .Values.serviceAccount
  "name" (include "outrigger.serviceAccountName" .) "labels" (include "outrigger.labels" .)) -}}
{{- end -}}
