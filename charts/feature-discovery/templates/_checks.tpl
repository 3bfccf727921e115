{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "feature-discovery.refuse" -}}
{{- $root := include "feature-discovery.driverRoot" . -}}
{{- with .Values.nvidiaDevRoot -}}
{{- if not (or (eq . "/") (include "feature-discovery.inFolder" (list $root .))) -}}
{{- fail (printf "nvidiaDevRoot: %q must be / or in nvidiaDriverRoot, which is %q: the agent sees no other folder of the host" . $root) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.presence.enabled (eq (include "feature-discovery.serviceAccountName" .) (include "feature-discovery.presenceServiceAccountName" .)) -}}
{{- fail (printf "presence.serviceAccount.name: both parts would be %q, and what the one may write is refused to the other: name another one" (include "feature-discovery.serviceAccountName" .)) -}}
{{- end -}}
{{- if and (include "feature-discovery.policies" .) (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "admissionPolicy.create: Kubernetes %s has no ValidatingAdmissionPolicy of version v1, which came with 1.30: set it to false, and see in README.md what that means" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- include "feature-discovery.refuseResourceConfig" . -}}
{{- include "feature-discovery.refuseConfig" . -}}
{{- end -}}

{{- define "feature-discovery.refuseResourceConfig" -}}
{{- range $entry := splitList "," (default "" .Values.resourceConfig) -}}
{{- if not (regexMatch `^\s*([^:\s]+\s*(:\s*[^:\s]+\s*(:\s*(-1|[1-9][0-9]*)\s*)?)?)?$` $entry) -}}
{{- fail (printf "resourceConfig: entry %q must be <original>[:<new>[:<replicas>]], like gpu:sharedgpu:4, with replicas from 1 upwards, or -1 for one for each 1000 MiB of memory" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "feature-discovery.refuseConfig" -}}
{{- $c := .Values.config -}}
{{- if and $c.name $c.map -}}
{{- fail (printf "config.name and config.map are both set: either the ConfigMap %q has the configs, or the chart makes one of config.map: remove one of them" $c.name) -}}
{{- end -}}
{{- if and $c.default $c.map (not (hasKey $c.map $c.default)) -}}
{{- fail (printf "config.default: %q is not in config.map: there is %s" $c.default (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $c.default (not (include "feature-discovery.configMapName" .)) -}}
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
{{- include "feature-discovery.refuseOverridden" (dict "root" $root "name" $name "text" $text) -}}
{{- end -}}
{{- end -}}

{{- /* The chart's values go before the config file, as variables do: a file that
says otherwise would be overridden without a word. */ -}}
{{- define "feature-discovery.refuseOverridden" -}}
{{- $v := .root.Values -}}
{{- $name := .name -}}
{{- $text := .text -}}
{{- $rules := list
  (list "nvidiaDriverRoot" "nvidiaDriverRoot" (include "feature-discovery.driverRoot" .root))
  (list "gfd.oneshot" "" false)
  (list "gfd.machineTypeFile" "GFD_MACHINE_TYPE_FILE in env" (include "feature-discovery.machineTypeFile" .root))
  (list "useNodeFeatureAPI" "publish" (eq $v.publish "nodefeature")) -}}
{{- if $v.nvidiaDevRoot -}}
{{- $rules = append $rules (list "nvidiaDevRoot" "nvidiaDevRoot" $v.nvidiaDevRoot) -}}
{{- end -}}
{{- if eq $v.publish "nfd-file" -}}
{{- $rules = append $rules (list "gfd.outputFile" "outputFile" $v.outputFile) -}}
{{- end -}}
{{- range $rules -}}
{{- $want := last . -}}
{{- $value := index . 1 -}}
{{- $key := first . -}}
{{- with include "feature-discovery.configValue" (dict "text" $text "path" (concat (list "flags") (splitList "." $key))) -}}
{{- if ne . (toJson $want) -}}
{{- if not $value -}}
{{- fail (printf "config.map.%s: flags.%s is %s: a pod of a DaemonSet that ends is started again: remove it" $name $key .) -}}
{{- end -}}
{{- fail (printf "config.map.%s: flags.%s is %s, but %s is what the chart sets: set %s of the chart instead" $name $key . (toJson $want) $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.resourceConfig (include "feature-discovery.configValue" (dict "text" $text "path" (list "sharing"))) -}}
{{- fail (printf "config.map.%s: it has sharing, and resourceConfig is set too: both say how GPUs are shared, remove one of them" $name) -}}
{{- end -}}
{{- end -}}
