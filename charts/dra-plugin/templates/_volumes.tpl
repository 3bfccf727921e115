{{- /* README.md, "Privileges and why", has the reason for each. */ -}}
{{- define "dra-plugin.volumeMounts" -}}
- name: plugins
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins
- name: plugins-registry
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
{{- if not (include "dra-plugin.driverInRun" .) }}
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

{{- define "dra-plugin.volumes" -}}
- name: plugins
  hostPath:
    path: {{ include "dra-plugin.kubeletDir" . }}/plugins
    type: DirectoryOrCreate
- name: plugins-registry
  hostPath:
    path: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
    type: Directory
{{- if not (include "dra-plugin.driverInRun" .) }}
- name: driver-root
  hostPath:
    path: {{ include "dra-plugin.driverRoot" . }}
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
