{{- /* The config values as YAML: the values of the chart or, if they name no config, the values of
the parent chart in global.config. For the parent's values, "parent" is set. "in" is the path of the
values. */ -}}
{{- define "outrigger.config" -}}
{{- $own := include "outrigger.ownConfig" (default dict .Values.config) | fromYaml -}}
{{- $parents := get (default dict .Values.global) "config" | default dict -}}
{{- if and (or $parents.name $parents.map) (not (or $own.name $own.map)) -}}
{{- merge (dict "parent" true) $parents (dict "in" "global.config") | toYaml -}}
{{- else -}}
{{- merge (dict "in" "config") $own | toYaml -}}
{{- end -}}
{{- end -}}

{{- /* The config values of a chart. In NVIDIA's operator, config.create makes a ConfigMap with the
name config.name from config.data. Here, create becomes that name, and map becomes the data. */ -}}
{{- define "outrigger.ownConfig" -}}
{{- if .create -}}
{{- if not (and .name .data) -}}
{{- fail "config.create: a ConfigMap needs config.name and config.data; set both, or set config.create to false" -}}
{{- end -}}
{{- if .map -}}
{{- fail "config.map and config.data are both set: both are the content of the ConfigMap; remove one of them" -}}
{{- end -}}
{{- omit . "name" "data" | merge (dict "create" .name "map" .data) | toYaml -}}
{{- else if .data -}}
{{- fail "config.data: it has no effect without config.create; set config.create to true, or remove it" -}}
{{- else -}}
{{- omit . "create" | toYaml -}}
{{- end -}}
{{- end -}}

{{- /* The name of the ConfigMap with the config files; empty without configs. */ -}}
{{- define "outrigger.configMapName" -}}
{{- $c := include "outrigger.config" . | fromYaml -}}
{{- if $c.name -}}
{{- $c.name -}}
{{- else if and $c.map $c.create -}}
{{- $c.create -}}
{{- else if and $c.map $c.parent -}}
{{- include "outrigger.parentConfigMapName" . -}}
{{- else if $c.map -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "configs") -}}
{{- end -}}
{{- end -}}

{{- /* The ConfigMap of a parent chart, which all its agents mount. */ -}}
{{- define "outrigger.parentConfigMapName" -}}
{{- printf "%s-gpu-configs" (trunc 51 .Release.Name) -}}
{{- end -}}

{{- /* A value as text: the chart's own value, or else the parent chart's value in global. Empty if
neither is set. Argument: (dict "root" $ "name" the path, such as "cdi.nvidiaHookPath"). */ -}}
{{- define "outrigger.setting" -}}
{{- $value := "" -}}
{{- $path := splitList "." .name -}}
{{- range list (default dict .root.Values.global) .root.Values -}}
{{- $at := . -}}
{{- range $path }}{{ $at = get (kindIs "map" $at | ternary $at dict) . }}{{ end -}}
{{- if not (kindIs "invalid" $at) }}{{ $value = toString $at | default $value }}{{ end -}}
{{- end -}}
{{- $value -}}
{{- end -}}

{{- /* Like outrigger.setting, for values that are the same on all nodes, such as mounts. If the
value is not set, the configs may set it below flags. Argument: (dict … "key" its path there, such
as "plugin.nvidiaCTKPath"). */ -}}
{{- define "outrigger.fixed" -}}
{{- $value := include "outrigger.setting" . -}}
{{- if not $value -}}
{{- $path := concat (list "flags") (splitList "." .key) -}}
{{- $found := dict -}}
{{- $c := include "outrigger.config" .root | fromYaml -}}
{{- range $name, $text := $c.map -}}
{{- with include "outrigger.configValue" (dict "text" $text "path" $path) }}{{ $_ := set $found . $name }}{{ end -}}
{{- end -}}
{{- if gt (len $found) 1 -}}
{{- fail (printf "%s.map: flags.%s differs between the configs %s, but the chart needs one value for all nodes; set %s of the chart, and remove it from the configs" $c.in .key (values $found | sortAlpha | join " and ") .name) -}}
{{- end -}}
{{- $value = keys $found | first | default "" | trimAll "\"" -}}
{{- end -}}
{{- $value -}}
{{- end -}}

{{- /* The same path as in NVIDIA's chart. */ -}}
{{- define "outrigger.configDir" -}}
/available-configs
{{- end -}}

{{- define "outrigger.configEnv" -}}
{{- if include "outrigger.configMapName" . -}}
- name: CONFIG_FILE_SRCDIR
  value: {{ include "outrigger.configDir" . }}
{{- $c := include "outrigger.config" . | fromYaml }}
{{- with $c.default }}
- name: DEFAULT_CONFIG
  value: {{ . | quote }}
{{- end }}
{{- with $c.fallbackStrategies }}
- name: FALLBACK_STRATEGIES
  value: {{ join "," . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "outrigger.configMount" -}}
{{- if include "outrigger.configMapName" . -}}
# Mount the folder, not its files. The kubelet replaces the files when the ConfigMap changes, and
# the agent watches the folder.
- name: configs
  mountPath: {{ include "outrigger.configDir" . }}
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "outrigger.configVolume" -}}
{{- with include "outrigger.configMapName" . -}}
- name: configs
  configMap:
    name: {{ . }}
{{- end -}}
{{- end -}}

{{- /* The value at a path in a config file, as JSON. Empty if the file does not set it. Argument:
(dict "text" … "path" (list …)). */ -}}
{{- define "outrigger.configValue" -}}
{{- $at := fromYaml .text -}}
{{- range .path -}}
{{- $at = kindIs "map" $at | ternary $at dict | dig . "" -}}
{{- end -}}
{{- with $at }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- define "outrigger.checkResourceConfig" -}}
{{- range $entry := include "outrigger.setting" (dict "root" . "name" "resourceConfig") | splitList "," -}}
{{- if not (regexMatch `^\s*([^:\s]+\s*(:\s*[^:\s]+\s*(:\s*(-1|[1-9][0-9]*)\s*)?)?)?$` $entry) -}}
{{- fail (printf "resourceConfig: entry %q must be <original>[:<new>[:<replicas>]], such as gpu:sharedgpu:4, with 1 or more replicas, or -1 for one per 1000 MiB of memory" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Rejects configs that cannot work. Argument: (dict "root" $ "fixed" the flags that the chart
sets). An entry of "fixed" is (dict "key" its path below flags "is" the value and either "by" the
chart's value that sets it, or "fix" the fix). */ -}}
{{- define "outrigger.checkConfig" -}}
{{- $c := include "outrigger.config" .root | fromYaml -}}
{{- $resourceConfig := include "outrigger.setting" (dict "root" .root "name" "resourceConfig") -}}
{{- $fixed := .fixed -}}
{{- if and $c.parent $c.map (ne (include "outrigger.namespace" .root) (.root.Values.global.namespace | default .root.Release.Namespace)) -}}
{{- fail (printf "namespaceOverride: pods in %q cannot mount the ConfigMap of global.config, which is in the namespace of the release; remove namespaceOverride" (include "outrigger.namespace" .root)) -}}
{{- end -}}
{{- if and $c.name $c.map -}}
{{- fail (printf "%s.name and %s.map are both set: the configs are either in the ConfigMap %q or in %s.map; remove one of the values" $c.in $c.in $c.name $c.in) -}}
{{- end -}}
{{- if and $c.default $c.map (not (hasKey $c.map $c.default)) -}}
{{- fail (printf "%s.default: %q is not in %s.map, which has %s" $c.in $c.default $c.in (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $c.default (not (include "outrigger.configMapName" .root)) -}}
{{- fail (printf "config.default: %q names no config, because the chart has no configs; set config.map or config.name" $c.default) -}}
{{- end -}}
{{- range $name, $text := $c.map -}}
{{- if not (regexMatch `^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$` $name) -}}
{{- fail (printf "%s.map: %q is not a valid name: a label selects the config, so the name must be a valid label value: at most 63 letters, digits and - _ . that begins and ends with a letter or digit" $c.in $name) -}}
{{- end -}}
{{- with (fromYaml $text).Error -}}
{{- fail (printf "%s.map.%s: invalid config: %s" $c.in $name .) -}}
{{- end -}}
{{- range $fixed -}}
{{- include "outrigger.checkOverridden" (dict "in" $c.in "name" $name "text" $text "rule" .) -}}
{{- end -}}
{{- if and $resourceConfig (include "outrigger.configValue" (dict "text" $text "path" (list "sharing"))) -}}
{{- fail (printf "%s.map.%s: sharing and resourceConfig are both set: both define how GPUs are shared; remove one of them" $c.in $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The chart's values take precedence over the config file, as variables do. A file
that contradicts them would be overridden silently. */ -}}
{{- define "outrigger.checkOverridden" -}}
{{- $is := toJson .rule.is -}}
{{- $value := include "outrigger.configValue" (dict "text" .text "path" (concat (list "flags") (splitList "." .rule.key))) -}}
{{- if and $value (ne $value $is) -}}
{{- $fix := printf "but the chart sets it to %s; set %s of the chart instead" $is (default "" .rule.by) -}}
{{- fail (printf "%s.map.%s: flags.%s is %s, %s" .in .name .rule.key $value (default $fix .rule.fix)) -}}
{{- end -}}
{{- end -}}
