{{- /* The value of (dict "root" $ "own" the chart's "theirs" "toolkit.installDir" "default" …):
that of the chart, else that of NVIDIA's operator, else the default. */ -}}
{{- define "container-toolkit.setting" -}}
{{- $theirs := "" -}}
{{- $at := .root.Values -}}
{{- range splitList "." .theirs }}{{ $at = get (kindIs "map" $at | ternary $at dict) . }}{{ end -}}
{{- if not (kindIs "invalid" $at) }}{{ $theirs = toString $at }}{{ end -}}
{{- default .default (default $theirs .own) -}}
{{- end -}}

{{- define "container-toolkit.installDir" -}}
{{- include "container-toolkit.setting" (dict "root" . "own" .Values.installDir "theirs" "toolkit.installDir" "default" "/usr/local/nvidia") | trimSuffix "/" -}}
{{- end -}}

{{- define "container-toolkit.engine" -}}
{{- include "container-toolkit.setting" (dict "root" . "own" .Values.runtime.engine "theirs" "operator.defaultRuntime" "default" "containerd") -}}
{{- end -}}

{{- define "container-toolkit.runtimeName" -}}
{{- include "container-toolkit.setting" (dict "root" . "own" .Values.runtime.name "theirs" "operator.runtimeClass" "default" "nvidia") -}}
{{- end -}}

{{- /* "true" if the runtime is registered with the engine. */ -}}
{{- define "container-toolkit.configures" -}}
{{- if and .Values.runtime.configure (not .Values.cdi.nriPluginEnabled) }}true{{ end -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "container-toolkit.check" -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- $engine := include "container-toolkit.engine" . -}}
{{- if not (has $engine (list "containerd" "crio" "docker")) -}}
{{- fail (printf "operator.defaultRuntime: %q must be containerd, crio or docker" $engine) -}}
{{- end -}}
{{- if and (eq $engine "crio") (eq (default "" .Values.runtime.restartMode) "signal") -}}
{{- fail "runtime.restartMode: CRI-O uses a new runtime only after a restart; use systemd or none" -}}
{{- end -}}
{{- if not (hasPrefix "/" (include "container-toolkit.installDir" .)) -}}
{{- fail (printf "toolkit.installDir: %q must be an absolute path" (include "container-toolkit.installDir" .)) -}}
{{- end -}}
{{- if has (include "container-toolkit.runtimeName" .) (list "nvidia-cdi" "nvidia-legacy" "runc" "crun") -}}
{{- fail (printf "runtime.name: %q is the name of another runtime; choose another one" (include "container-toolkit.runtimeName" .)) -}}
{{- end -}}
{{- if .Values.cdi.nriPluginEnabled -}}
{{- if not .Values.cdi.enabled -}}
{{- fail "cdi.nriPluginEnabled: the plugin gives containers what CDI specs say; set cdi.enabled=true" -}}
{{- end -}}
{{- if eq $engine "docker" -}}
{{- fail "cdi.nriPluginEnabled: Docker has no NRI; set runtime.engine to containerd or crio" -}}
{{- end -}}
{{- end -}}
{{- if (default dict .Values.updateStrategy.rollingUpdate).maxSurge -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: the new pod of a node waits until the old one has ended; use maxUnavailable" -}}
{{- end -}}
{{- end -}}
