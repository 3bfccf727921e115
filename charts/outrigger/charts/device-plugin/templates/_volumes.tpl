{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "device-plugin.volumeMounts" -}}
- name: device-plugins
  mountPath: {{ include "device-plugin.devicePluginsDir" . }}
{{ include "device-plugin.hostMounts" . }}
- name: cdi
  mountPath: /var/run/cdi
{{- if not (include "device-plugin.mpsInRun" .) }}
- name: mps
  mountPath: {{ .Values.mps.root }}
  readOnly: true
  mountPropagation: HostToContainer
{{- end }}
{{- end -}}

{{- define "device-plugin.volumes" -}}
- name: device-plugins
  hostPath:
    path: {{ include "device-plugin.devicePluginsDir" . }}
    type: Directory
{{ include "device-plugin.hostVolumes" . }}
- name: cdi
  hostPath:
    path: /var/run/cdi
    type: DirectoryOrCreate
{{- if not (include "device-plugin.mpsInRun" .) }}
{{ include "device-plugin.mpsVolume" . }}
{{- end }}
{{- end -}}

{{- /* The mounts of both the plugin and the MPS control daemons. */ -}}
{{- define "device-plugin.hostMounts" -}}
{{ include "outrigger.driverMounts" . }}
{{- with include "outrigger.configMount" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "device-plugin.hostVolumes" -}}
{{ include "outrigger.driverVolumes" . }}
{{- with include "outrigger.configVolume" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "device-plugin.mpsInRun" -}}
{{- include "outrigger.inFolder" (list "/run/nvidia" .Values.mps.root) -}}
{{- end -}}

{{- define "device-plugin.mpsVolume" -}}
- name: mps
  hostPath:
    path: {{ .Values.mps.root }}
    type: DirectoryOrCreate
{{- end -}}

{{- define "device-plugin.mpsMounts" -}}
{{ include "device-plugin.hostMounts" . }}
# The daemons' pipes, logs and shared memory. The path is the same as on the host, and mounts below
# it propagate to the host.
- name: mps
  mountPath: {{ .Values.mps.root }}
  mountPropagation: Bidirectional
{{- if eq (include "outrigger.driverRoot" .) "/" }}
# The daemons are programs of the host. They run in the host's file system. Only this mount is
# writable there.
- name: mps
  mountPath: /driver-root{{ .Values.mps.root }}
  mountPropagation: HostToContainer
{{- end }}
{{- end -}}

{{- define "device-plugin.mpsVolumes" -}}
{{ include "device-plugin.hostVolumes" . }}
{{ include "device-plugin.mpsVolume" . }}
{{- end -}}
