{{- /* A value: the chart's own value, else the value of NVIDIA's operator, else the default.
Argument: (dict "root" $ "own" the chart's value "theirs" its path in NVIDIA's operator, such as
"toolkit.installDir" "default" …). */ -}}
{{- define "container-toolkit.setting" -}}
{{- default .default (default (include "outrigger.setting" (dict "root" .root "name" .theirs)) .own) -}}
{{- end -}}

{{- /* The path of the value that container-toolkit.setting takes. Argument: (dict "root" $ "own" its path "theirs" …). */ -}}
{{- define "container-toolkit.where" -}}
{{- $own := dict "at" .root.Values -}}
{{- range splitList "." .own }}{{ $_ := set $own "at" (get (kindIs "map" $own.at | ternary $own.at dict) .) }}{{ end -}}
{{- if $own.at }}{{ include "outrigger.path" .root }}{{ .own }}{{ else }}{{ include "outrigger.settingPath" (dict "root" .root "name" .theirs) }}{{ end -}}
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
{{- $path := include "container-toolkit.where" (dict "root" . "own" "runtime.engine" "theirs" "operator.defaultRuntime") -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" (printf "%q must be containerd, crio or docker" $engine)
  "instead" "write one of them, or remove it, because the agent detects the engine" "remove" (list $path)) -}}
{{- end -}}
{{- if and (eq $engine "crio") (eq (default "" .Values.runtime.restartMode) "signal") -}}
{{- include "outrigger.problem" (dict "root" . "path" "runtime.restartMode" "reason" "CRI-O uses a new runtime only after a restart"
  "instead" "use systemd or none" "set" (dict "runtime.restartMode" "systemd")) -}}
{{- end -}}
{{- if not (hasPrefix "/" (include "container-toolkit.installDir" .)) -}}
{{- $path := include "container-toolkit.where" (dict "root" . "own" "installDir" "theirs" "toolkit.installDir") -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" (printf "%q is not an absolute path" (include "container-toolkit.installDir" .))
  "instead" "write it from the root, such as /usr/local/nvidia" "set" (dict $path "/usr/local/nvidia")) -}}
{{- end -}}
{{- if has (include "container-toolkit.runtimeName" .) (list "nvidia-cdi" "nvidia-legacy" "runc" "crun") -}}
{{- $path := include "container-toolkit.where" (dict "root" . "own" "runtime.name" "theirs" "operator.runtimeClass") -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" (printf "%q is the name of another runtime" (include "container-toolkit.runtimeName" .))
  "instead" "choose another one" "remove" (list $path)) -}}
{{- end -}}
{{- if include "container-toolkit.nri" . -}}
{{- $path := include "outrigger.settingPath" (dict "root" . "name" "cdi.nriPluginEnabled") -}}
{{- $nri := dict "root" . "full" true "path" $path "set" (dict $path false) -}}
{{- if not (include "container-toolkit.cdi" .) -}}
{{- include "outrigger.problem" (merge (dict "reason" "the plugin gives containers what CDI specs say" "instead" "set cdi.enabled to true") $nri) -}}
{{- end -}}
{{- if eq $engine "docker" -}}
{{- include "outrigger.problem" (merge (dict "reason" "Docker has no NRI" "instead" "set it to false, or runtime.engine to containerd or crio") $nri) -}}
{{- end -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- include "outrigger.problem" (dict "root" . "path" "updateStrategy.rollingUpdate.maxSurge" "reason" "the new pod of a node waits until the old one has ended"
  "instead" "use maxUnavailable" "remove" (list "updateStrategy.rollingUpdate.maxSurge")) -}}
{{- end -}}
{{- end -}}
