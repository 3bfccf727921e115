{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "dra-plugin.volumeMounts" -}}
- name: plugins
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins
- name: plugins-registry
  mountPath: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
{{ include "outrigger.driverMounts" . }}
- name: cdi
  mountPath: /var/run/cdi
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
{{ include "outrigger.driverVolumes" . }}
- name: cdi
  hostPath:
    path: /var/run/cdi
    type: DirectoryOrCreate
{{- end -}}
