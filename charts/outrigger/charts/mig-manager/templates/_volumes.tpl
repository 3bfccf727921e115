{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "mig-manager.volumeMounts" -}}
{{ include "mig-manager.driver" (dict "root" . "template" "outrigger.driverMounts") }}
# The numbers of device nodes.
- name: proc-devices
  mountPath: /host/proc/devices
  readOnly: true
  mountPropagation: HostToContainer
- name: state
  mountPath: {{ .Values.stateDir }}
# Mount the folder, not the socket, because the kubelet makes a new socket when it restarts.
- name: pod-resources
  mountPath: {{ include "mig-manager.podResources" . }}
  readOnly: true
# The kubelet creates a folder here for each pod. The name of the folder has the name and the UID of
# the pod.
- name: pod-logs
  mountPath: /var/log/pods
  readOnly: true
{{- if include "mig-manager.systemd" . }}
- name: dbus
  mountPath: /host/run/dbus
  readOnly: true
{{- end }}
# Mount folders, not files, because the kubelet replaces the files when the ConfigMap changes.
{{- if (default dict .Values.config).name }}
- name: config
  mountPath: /mig-parted-config
  readOnly: true
{{- end }}
{{- if (default dict .Values.gpuClientsConfig).name }}
- name: gpu-clients
  mountPath: /gpu-clients
  readOnly: true
{{- end }}
{{- end -}}

{{- define "mig-manager.volumes" -}}
{{ include "mig-manager.driver" (dict "root" . "template" "outrigger.driverVolumes") }}
- name: proc-devices
  hostPath:
    path: {{ include "outrigger.procRoot" . }}/devices
    type: File
- name: state
  hostPath:
    path: {{ .Values.stateDir }}
    type: DirectoryOrCreate
- name: pod-resources
  hostPath:
    path: {{ include "mig-manager.podResources" . }}
    type: Directory
- name: pod-logs
  hostPath:
    path: /var/log/pods
    type: DirectoryOrCreate
{{- if include "mig-manager.systemd" . }}
- name: dbus
  hostPath:
    path: /run/dbus
    type: Directory
{{- end }}
{{- with (default dict .Values.config).name }}
- name: config
  configMap:
    name: {{ . }}
{{- end }}
{{- with (default dict .Values.gpuClientsConfig).name }}
- name: gpu-clients
  configMap:
    name: {{ . }}
{{- end }}
{{- end -}}
