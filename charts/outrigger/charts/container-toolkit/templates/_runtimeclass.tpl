{{- define "container-toolkit.runtimeclass" -}}
{{- if and .Values.runtimeClass.create (include "container-toolkit.configures" .) }}
{{- range $i, $name := list (include "container-toolkit.runtimeName" .) "nvidia-cdi" "nvidia-legacy" }}
{{- if $i }}
---
{{- end }}
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: {{ $name }}
  labels:
    {{- include "outrigger.labels" $ | nindent 4 }}
handler: {{ $name }}
{{- end }}
{{- end }}
{{- end -}}
