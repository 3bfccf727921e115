{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "dcgm-exporter.volumeMounts" -}}
{{ include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.driverMounts") }}
# Mount the folder, not the socket, because the kubelet makes a new socket when it restarts.
- name: pod-resources
  mountPath: {{ include "dcgm-exporter.podResources" . }}
  readOnly: true
{{- if .Values.hostPID }}
# The kubelet creates a folder here for each pod. The name of the folder has the name and the UID of
# the pod.
- name: pod-logs
  mountPath: /var/log/pods
  readOnly: true
{{- end }}
{{- if include "dcgm-exporter.countersName" . }}
# Mount the folder, not the file, because the kubelet replaces the file when the ConfigMap changes.
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
