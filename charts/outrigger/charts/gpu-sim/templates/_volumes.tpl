{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "gpu-sim.volumeMounts" -}}
- name: gpu-sim
  mountPath: /run/gpu-sim
- name: dev
  mountPath: /dev
# Mounts in these folders appear on the host, and so in the pods that mount the folders.
- name: proc
  mountPath: /host/proc
  mountPropagation: Bidirectional
- name: sys
  mountPath: /host/sys
  mountPropagation: Bidirectional
- name: run-nvidia
  mountPath: /run/nvidia
  mountPropagation: Bidirectional
# Mount the folder, not the socket, because the kubelet makes a new socket when it restarts.
- name: pod-resources
  mountPath: /var/lib/kubelet/pod-resources
  readOnly: true
{{- if .Values.nri.enabled }}
# Mount the folder, not the socket, because the engine makes a new socket when it restarts.
- name: nri
  mountPath: /var/run/nri
  readOnly: true
{{- end }}
{{- with include "outrigger.tlsMount" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "gpu-sim.volumes" -}}
- name: gpu-sim
  hostPath:
    path: /run/gpu-sim
    type: DirectoryOrCreate
- name: dev
  hostPath:
    path: /dev
    type: Directory
- name: proc
  hostPath:
    path: /proc
    type: Directory
- name: sys
  hostPath:
    path: /sys
    type: Directory
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
- name: pod-resources
  hostPath:
    path: {{ include "outrigger.kubeletRootDir" . }}/pod-resources
    type: DirectoryOrCreate
{{- if .Values.nri.enabled }}
- name: nri
  hostPath:
    path: /var/run/nri
    type: DirectoryOrCreate
{{- end }}
{{- with include "outrigger.tlsVolume" . }}
{{ . }}
{{- end }}
{{- end -}}
