{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "feature-discovery.volumeMounts" -}}
{{ include "outrigger.driverMounts" . }}
{{- if eq .Values.publish "nfd-file" }}
- name: features
  mountPath: {{ dir .Values.outputFile }}
{{- end }}
{{- with include "outrigger.configMount" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "feature-discovery.volumes" -}}
{{ include "outrigger.driverVolumes" . }}
{{- if eq .Values.publish "nfd-file" }}
- name: features
  hostPath:
    path: {{ dir .Values.outputFile }}
    type: DirectoryOrCreate
{{- end }}
{{- with include "outrigger.configVolume" . }}
{{ . }}
{{- end }}
{{- end -}}
