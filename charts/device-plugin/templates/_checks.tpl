{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "device-plugin.refuse" -}}
{{- if .Values.legacyDaemonsetAPI -}}
{{- fail "legacyDaemonsetAPI: the API extensions/v1beta1 for DaemonSets is gone since Kubernetes 1.16, and this chart needs 1.26: remove the value" -}}
{{- end -}}
{{- if not (or .Values.devicePlugin.enabled (include "device-plugin.mps" .)) -}}
{{- fail "devicePlugin.enabled: it is false, and no daemons of MPS are asked for: nothing would run; set mps.enabled, or remove the value" -}}
{{- end -}}
{{- $root := include "device-plugin.driverRoot" . -}}
{{- with .Values.nvidiaDevRoot -}}
{{- if not (or (eq . "/") (include "device-plugin.inFolder" (list $root .))) -}}
{{- fail (printf "nvidiaDevRoot: %q must be / or in nvidiaDriverRoot, which is %q: the agent sees no other folder of the host" . $root) -}}
{{- end -}}
{{- end -}}
{{- include "device-plugin.refuseResourceConfig" . -}}
{{- include "device-plugin.refuseConfig" . -}}
{{- end -}}

{{- define "device-plugin.refuseResourceConfig" -}}
{{- range $entry := splitList "," (default "" .Values.resourceConfig) -}}
{{- if not (regexMatch `^\s*([^:\s]+\s*(:\s*[^:\s]+\s*(:\s*(-1|[1-9][0-9]*)\s*)?)?)?$` $entry) -}}
{{- fail (printf "resourceConfig: entry %q must be <original>[:<new>[:<replicas>]], like gpu:sharedgpu:4, with replicas from 1 upwards, or -1 for one for each 1000 MiB of memory" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "device-plugin.refuseConfig" -}}
{{- $c := .Values.config -}}
{{- if and $c.name $c.map -}}
{{- fail (printf "config.name and config.map are both set: either the ConfigMap %q has the configs, or the chart makes one of config.map: remove one of them" $c.name) -}}
{{- end -}}
{{- if and $c.default $c.map (not (hasKey $c.map $c.default)) -}}
{{- fail (printf "config.default: %q is not in config.map: there is %s" $c.default (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $c.default (not (include "device-plugin.configMapName" .)) -}}
{{- fail (printf "config.default: there are no configs of which %q could be one: set config.map or config.name" $c.default) -}}
{{- end -}}
{{- $root := . -}}
{{- range $name, $text := $c.map -}}
{{- if not (regexMatch `^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$` $name) -}}
{{- fail (printf "config.map: %q cannot be the name of a config, which is the value of a label: letters and digits, at most 63, and between them - _ ." $name) -}}
{{- end -}}
{{- $error := (fromYaml $text).Error -}}
{{- if $error -}}
{{- fail (printf "config.map.%s: not the YAML of a config: %s" $name $error) -}}
{{- end -}}
{{- include "device-plugin.refuseOverridden" (dict "root" $root "name" $name "text" $text) -}}
{{- end -}}
{{- end -}}

{{- /* The chart's values go before the config file, as variables do: a file that
says otherwise would be overridden without a word. */ -}}
{{- define "device-plugin.refuseOverridden" -}}
{{- $v := .root.Values -}}
{{- $name := .name -}}
{{- $text := .text -}}
{{- if $v.deviceListStrategy -}}
{{- with include "device-plugin.configValue" (dict "text" $text "path" (list "flags" "plugin" "deviceListStrategy")) -}}
{{- if ne . (toJson $v.deviceListStrategy) -}}
{{- fail (printf "config.map.%s: flags.plugin.deviceListStrategy is %s, but the chart's value goes before it: set deviceListStrategy to null to let the configs choose" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range list
  (list "nvidiaDriverRoot" "nvidiaDriverRoot" (include "device-plugin.driverRoot" .root))
  (list "nvidiaDevRoot" "nvidiaDevRoot" (default "" $v.nvidiaDevRoot))
  (list "plugin.nvidiaCTKPath" "cdi.nvidiaHookPath" (default "" $v.cdi.nvidiaHookPath))
  (list "mpsRoot" "mps.root" $v.mps.root) -}}
{{- $want := last . -}}
{{- $value := index . 1 -}}
{{- $key := first . -}}
{{- with include "device-plugin.configValue" (dict "text" $text "path" (concat (list "flags") (splitList "." $key))) -}}
{{- if ne . (toJson $want) -}}
{{- fail (printf "config.map.%s: flags.%s is %s, but %q is what the chart sets: set %s of the chart instead" $name $key . $want $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.resourceConfig (include "device-plugin.configValue" (dict "text" $text "path" (list "sharing"))) -}}
{{- fail (printf "config.map.%s: it has sharing, and resourceConfig is set too: both say how GPUs are shared, remove one of them" $name) -}}
{{- end -}}
{{- end -}}
