{{- /* README.md, "Privileges and why", has the reason for each. */ -}}
{{- define "feature-discovery.volumeMounts" -}}
{{- if not (include "feature-discovery.driverInRun" .) -}}
- name: driver-root
  mountPath: /driver-root
  readOnly: true
  mountPropagation: HostToContainer
{{ end -}}
- name: run-nvidia
  mountPath: /run/nvidia
  mountPropagation: HostToContainer
- name: dev
  mountPath: /dev
  mountPropagation: HostToContainer
- name: proc-driver
  mountPath: /host/proc/driver
  readOnly: true
  mountPropagation: HostToContainer
- name: sys
  mountPath: /host/sys
  readOnly: true
  mountPropagation: HostToContainer
{{- if eq .Values.publish "nfd-file" }}
- name: features
  mountPath: {{ dir .Values.outputFile }}
{{- end }}
{{- if include "feature-discovery.configMapName" . }}
# The folder, not its files: the kubelet exchanges what is in it when the
# ConfigMap changes, and the agent sees that.
- name: configs
  mountPath: {{ include "feature-discovery.configDir" . }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "feature-discovery.volumes" -}}
{{- if not (include "feature-discovery.driverInRun" .) -}}
- name: driver-root
  hostPath:
    path: {{ include "feature-discovery.driverRoot" . }}
    type: DirectoryOrCreate
{{ end -}}
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
- name: dev
  hostPath:
    path: /dev
    type: Directory
- name: proc-driver
  hostPath:
    path: /proc/driver
    type: Directory
- name: sys
  hostPath:
    path: /sys
    type: Directory
{{- if eq .Values.publish "nfd-file" }}
- name: features
  hostPath:
    path: {{ dir .Values.outputFile }}
    type: DirectoryOrCreate
{{- end }}
{{- with include "feature-discovery.configMapName" . }}
- name: configs
  configMap:
    name: {{ . }}
{{- end }}
{{- end -}}
