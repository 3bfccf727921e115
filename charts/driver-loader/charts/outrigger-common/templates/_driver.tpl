{{- define "outrigger.driverRoot" -}}
{{- include "outrigger.fixed" (dict "root" . "name" "nvidiaDriverRoot" "key" "nvidiaDriverRoot") | default "/" -}}
{{- end -}}

{{- define "outrigger.devRoot" -}}
{{- include "outrigger.fixed" (dict "root" . "name" "nvidiaDevRoot" "key" "nvidiaDevRoot") -}}
{{- end -}}

{{- /* The procfs and the sysfs of the host that show the driver and the GPUs. */ -}}
{{- define "outrigger.procRoot" -}}
{{- .Values.procRoot | default "/proc" | trimSuffix "/" -}}
{{- end -}}

{{- define "outrigger.sysRoot" -}}
{{- .Values.sysRoot | default "/sys" -}}
{{- end -}}

{{- /* Reports whether a path is in a folder. Argument: (list folder path). */ -}}
{{- define "outrigger.inFolder" -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" (first .))) (printf "%s/" (trimSuffix "/" (last .))) }}true{{ end -}}
{{- end -}}

{{- /* A driver root below /run/nvidia appears and disappears with the driver's
container. The agent reaches it through /run/nvidia, which stays. */ -}}
{{- define "outrigger.driverInRun" -}}
{{- include "outrigger.inFolder" (list "/run/nvidia" (include "outrigger.driverRoot" .)) -}}
{{- end -}}

{{- define "outrigger.driverRootCtrPath" -}}
{{- if include "outrigger.driverInRun" . -}}
{{- include "outrigger.driverRoot" . -}}
{{- else -}}
/driver-root
{{- end -}}
{{- end -}}

{{- define "outrigger.checkDevRoot" -}}
{{- $root := include "outrigger.driverRoot" . -}}
{{- with include "outrigger.devRoot" . -}}
{{- if not (or (eq . "/") (include "outrigger.inFolder" (list $root .))) -}}
{{- $path := include "outrigger.settingPath" (dict "root" $ "name" "nvidiaDevRoot") -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" $path "reason" (printf "%q must be / or a folder in nvidiaDriverRoot, which is %q, because the agent mounts no other host folder" . $root)
  "remove" (list $path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "outrigger.driverEnv" -}}
- name: NVIDIA_DRIVER_ROOT
  value: {{ include "outrigger.driverRoot" . | quote }}
- name: DRIVER_ROOT_CTR_PATH
  value: {{ include "outrigger.driverRootCtrPath" . | quote }}
- name: PROC_ROOT
  value: /host/proc
{{- end -}}

{{- /* The driver, the node's devices, the folder through which the agents
exchange files, and the folder with the indices of the GPUs over a reboot. */ -}}
{{- define "outrigger.driverMounts" -}}
{{- if not (include "outrigger.driverInRun" .) -}}
- name: driver-root
  mountPath: /driver-root
  readOnly: true
  mountPropagation: HostToContainer
{{ end -}}
- name: run-nvidia
  mountPath: /run/nvidia
  mountPropagation: HostToContainer
- name: index
  mountPath: /var/lib/outrigger/index
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
{{- with include "outrigger.tlsMount" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "outrigger.driverVolumes" -}}
{{- if not (include "outrigger.driverInRun" .) -}}
- name: driver-root
  hostPath:
    path: {{ include "outrigger.driverRoot" . }}
    type: DirectoryOrCreate
{{ end -}}
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
- name: index
  hostPath:
    path: /var/lib/outrigger/index
    type: DirectoryOrCreate
- name: dev
  hostPath:
    path: /dev
    type: Directory
- name: proc-driver
  hostPath:
    path: {{ include "outrigger.procRoot" . }}/driver
    type: Directory
- name: sys
  hostPath:
    path: {{ include "outrigger.sysRoot" . }}
    type: Directory
{{- with include "outrigger.tlsVolume" . }}
{{ . }}
{{- end }}
{{- end -}}
