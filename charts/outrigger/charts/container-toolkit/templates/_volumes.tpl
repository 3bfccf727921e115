{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "container-toolkit.volumeMounts" -}}
{{ include "outrigger.driverMounts" . }}
- name: cdi
  mountPath: /var/run/cdi
- name: install-dir
  mountPath: {{ include "container-toolkit.installDir" . }}
- name: host
  mountPath: /host
  mountPropagation: HostToContainer
{{- end -}}

{{- define "container-toolkit.volumes" -}}
{{ include "outrigger.driverVolumes" . }}
- name: cdi
  hostPath:
    path: /var/run/cdi
    type: DirectoryOrCreate
- name: install-dir
  hostPath:
    path: {{ include "container-toolkit.installDir" . }}
    type: DirectoryOrCreate
- name: host
  hostPath:
    path: /
    type: Directory
{{- end -}}
