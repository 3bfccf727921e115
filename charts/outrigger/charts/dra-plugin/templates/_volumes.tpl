{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "dra-plugin.volumeMounts" -}}
- name: plugin
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins/gpu.nvidia.com
- name: plugins-registry
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
{{ include "outrigger.driverMounts" . }}
- name: cdi
  mountPath: /var/run/cdi
{{- end -}}

{{- define "dra-plugin.volumes" -}}
- name: plugin
  hostPath:
    path: {{ include "dra-plugin.kubeletDir" . }}/plugins/gpu.nvidia.com
    type: DirectoryOrCreate
- name: plugins-registry
  hostPath:
    path: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
    type: Directory
{{ include "outrigger.driverVolumes" . }}
- name: cdi
  hostPath:
    path: /var/run/cdi
    type: DirectoryOrCreate
{{- end -}}
