{{- define "dra-plugin.deviceclasses" -}}
{{- if .Values.deviceClasses.create }}
{{- range $name, $type := dict "gpu.nvidia.com" "gpu" "mig.nvidia.com" "mig" }}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: {{ $name }}
  labels:
    {{- include "outrigger.labels" $ | nindent 4 }}
spec:
  selectors:
    - cel:
        expression: device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{{ $type }}'
  {{- if eq $type "gpu" }}
  {{- with $.Values.deviceClasses.extendedResourceName }}
  extendedResourceName: {{ . }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}
