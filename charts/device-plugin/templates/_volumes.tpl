{{- /* README.md, "Privileges and why", has the reason for each. */ -}}
{{- define "device-plugin.volumeMounts" -}}
- name: device-plugins
  mountPath: {{ include "device-plugin.devicePluginsDir" . }}
{{- if not (include "device-plugin.driverInRun" .) }}
- name: driver-root
  mountPath: /driver-root
  readOnly: true
  mountPropagation: HostToContainer
{{- end }}
- name: run-nvidia
  mountPath: /run/nvidia
  mountPropagation: HostToContainer
- name: cdi
  mountPath: /var/run/cdi
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
{{- end -}}

{{- define "device-plugin.volumes" -}}
- name: device-plugins
  hostPath:
    path: {{ include "device-plugin.devicePluginsDir" . }}
    type: Directory
{{- if not (include "device-plugin.driverInRun" .) }}
- name: driver-root
  hostPath:
    path: {{ .Values.nvidiaDriverRoot }}
    type: DirectoryOrCreate
{{- end }}
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
- name: cdi
  hostPath:
    path: /var/run/cdi
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
{{- end -}}
