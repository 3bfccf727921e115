{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "dcgm-exporter.volumeMounts" -}}
{{ include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.driverMounts") }}
# The folder, not the socket: the kubelet makes a new socket when it restarts.
- name: pod-resources
  mountPath: {{ include "dcgm-exporter.podResources" . }}
  readOnly: true
{{- if .Values.hostPID }}
# The kubelet puts the name and the UID of each pod into the name of a folder here.
- name: pod-logs
  mountPath: /var/log/pods
  readOnly: true
{{- end }}
{{- if include "dcgm-exporter.countersName" . }}
# The folder, not the file, as the kubelet replaces it when the ConfigMap changes.
- name: counters
  mountPath: /counters
  readOnly: true
{{- end }}
{{- if .Values.hpcJobMapping.enabled }}
- name: hpc-job-mapping
  mountPath: {{ .Values.hpcJobMapping.directory }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "dcgm-exporter.volumes" -}}
{{ include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.driverVolumes") }}
- name: pod-resources
  hostPath:
    path: {{ include "dcgm-exporter.podResources" . }}
    type: Directory
{{- if .Values.hostPID }}
- name: pod-logs
  hostPath:
    path: /var/log/pods
    type: DirectoryOrCreate
{{- end }}
{{- with include "dcgm-exporter.countersName" . }}
- name: counters
  configMap:
    name: {{ . }}
{{- end }}
{{- if .Values.hpcJobMapping.enabled }}
- name: hpc-job-mapping
  hostPath:
    path: {{ .Values.hpcJobMapping.directory }}
    type: DirectoryOrCreate
{{- end }}
{{- end -}}
