{{- /* A value: the chart's own value, else the value of NVIDIA's operator, else the default.
Argument: (dict "root" $ "own" the chart's value "theirs" its path in NVIDIA's operator, such as
"toolkit.installDir" "default" …). */ -}}
{{- define "container-toolkit.setting" -}}
{{- default .default (default (include "outrigger.setting" (dict "root" .root "name" .theirs)) .own) -}}
{{- end -}}

{{- define "container-toolkit.installDir" -}}
{{- include "container-toolkit.setting" (dict "root" . "own" .Values.installDir "theirs" "toolkit.installDir" "default" "/usr/local/nvidia") | trimSuffix "/" -}}
{{- end -}}

{{- define "container-toolkit.engine" -}}
{{- include "container-toolkit.setting" (dict "root" . "own" .Values.runtime.engine "theirs" "operator.defaultRuntime" "default" "containerd") -}}
{{- end -}}

{{- /* The name of the runtime and of its RuntimeClass. A variable of the user
replaces the value. Of several variables, the last one in this list wins. */ -}}
{{- define "container-toolkit.runtimeName" -}}
{{- $name := include "container-toolkit.setting" (dict "root" . "own" .Values.runtime.name "theirs" "operator.runtimeClass" "default" "nvidia") -}}
{{- $env := include "container-toolkit.userEnv" . | fromYamlArray -}}
{{- range $variable := list "DOCKER_RUNTIME_NAME" "CONTAINERD_RUNTIME_CLASS" "NVIDIA_RUNTIME_NAME" -}}
{{- range $env }}{{ if eq .name $variable }}{{ $name = default $name .value }}{{ end }}{{ end -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* "true" if the agent keeps CDI specs, which is the default. */ -}}
{{- define "container-toolkit.cdi" -}}
{{- if ne "false" (include "outrigger.setting" (dict "root" . "name" "cdi.enabled")) }}true{{ end -}}
{{- end -}}

{{- /* "true" if containers get their GPUs through NRI. */ -}}
{{- define "container-toolkit.nri" -}}
{{- if eq "true" (include "outrigger.setting" (dict "root" . "name" "cdi.nriPluginEnabled")) }}true{{ end -}}
{{- end -}}

{{- /* "true" if the runtime is registered with the engine. */ -}}
{{- define "container-toolkit.configures" -}}
{{- if and .Values.runtime.configure (not (include "container-toolkit.nri" .)) }}true{{ end -}}
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
{{- if include "container-toolkit.nri" . -}}
{{- if not (include "container-toolkit.cdi" .) -}}
{{- fail "cdi.nriPluginEnabled: the plugin gives containers what CDI specs say; set cdi.enabled=true" -}}
{{- end -}}
{{- if eq $engine "docker" -}}
{{- fail "cdi.nriPluginEnabled: Docker has no NRI; set runtime.engine to containerd or crio" -}}
{{- end -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: the new pod of a node waits until the old one has ended; use maxUnavailable" -}}
{{- end -}}
{{- end -}}
