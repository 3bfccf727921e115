{{- /* The config values as YAML: the values of the chart or, if they name no config, the values of
the parent chart in global.config. For the parent's values, "parent" is set. "in" is the path of the
values. */ -}}
{{- define "outrigger.config" -}}
{{- $own := include "outrigger.ownConfig" . | fromYaml -}}
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
{{- $c := default dict .Values.config -}}
{{- include "outrigger.checkCreate" . -}}
{{- if and $c.create $c.map -}}
{{- include "outrigger.problem" (dict "root" . "path" "config.map" "reason" "config.data is also set, and both are the content of the ConfigMap"
  "remove" (list "config.map")) -}}
{{- end -}}
{{- if and $c.create $c.name $c.data -}}
{{- omit $c "name" "data" | merge (dict "create" $c.name "map" $c.data) | toYaml -}}
{{- else -}}
{{- omit $c "create" | toYaml -}}
{{- end -}}
{{- end -}}

{{- /* Rejects config.create without the name or the content of a ConfigMap, and content without config.create. */ -}}
{{- define "outrigger.checkCreate" -}}
{{- $c := default dict .Values.config -}}
{{- if and $c.create (not (and $c.name $c.data)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "config.create" "reason" "a ConfigMap needs config.name and config.data"
  "instead" "set both, or set config.create to false" "set" (dict "config.create" false) "remove" (list "config.data")) -}}
{{- else if and $c.data (not $c.create) -}}
{{- include "outrigger.problem" (dict "root" . "path" "config.data" "reason" "it has no effect without config.create"
  "instead" "set config.create to true, or remove config.data" "remove" (list "config.data")) -}}
{{- end -}}
{{- end -}}

{{- /* The name of the ConfigMap with the config files; empty without configs. A chart that is installed alone has its own, also
for the configs in global.config. */ -}}
{{- define "outrigger.configMapName" -}}
{{- $c := include "outrigger.config" . | fromYaml -}}
{{- if $c.name -}}
{{- $c.name -}}
{{- else if and $c.map $c.create -}}
{{- $c.create -}}
{{- else if and $c.map $c.parent (include "outrigger.parentRenders" .) -}}
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
{{- include "outrigger.problem" (dict "root" .root "full" true "path" (printf "%s.map" (include "outrigger.configPath" .root))
  "reason" (printf "flags.%s differs between the configs %s, but the chart needs one value for all nodes" .key (values $found | sortAlpha | join " and "))
  "instead" (printf "set %s of the chart, and remove it from the configs" .name)) -}}
{{- end -}}
{{- $value = keys $found | sortAlpha | first | default "" | trimAll "\"" -}}
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
{{- $path := include "outrigger.settingPath" (dict "root" $ "name" "resourceConfig") -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" $path "reason" (printf "entry %q is not <original>[:<new>[:<replicas>]]" $entry)
  "instead" "write it such as gpu:sharedgpu:4, with 1 or more replicas, or -1 for one per 1000 MiB of memory" "remove" (list $path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The path of the configs: in this chart, or in its parent chart. */ -}}
{{- define "outrigger.configPath" -}}
{{- $c := include "outrigger.config" . | fromYaml -}}
{{- if $c.parent }}{{ index (default dict .Chart.Annotations) "outrigger.dev/parent-path" }}{{ $c.in }}{{ else }}{{ include "outrigger.path" . }}config{{ end -}}
{{- end -}}

{{- /* Rejects configs that cannot work. Argument: (dict "root" $ "fixed" the flags that the chart
sets). An entry of "fixed" is (dict "key" its path below flags "is" the value and either "by" the
chart's value that sets it, or "fix" the fix). */ -}}
{{- define "outrigger.checkConfig" -}}
{{- $c := include "outrigger.config" .root | fromYaml -}}
{{- $in := include "outrigger.configPath" .root -}}
{{- $of := dict "root" .root "full" true -}}
{{- $resourceConfig := include "outrigger.setting" (dict "root" .root "name" "resourceConfig") -}}
{{- if and $c.parent $c.map (include "outrigger.parentRenders" .root) (ne (include "outrigger.namespace" .root) (.root.Values.global.namespace | default .root.Release.Namespace)) -}}
{{- include "outrigger.problem" (dict "root" .root "path" "namespaceOverride" "remove" (list "namespaceOverride")
  "reason" (printf "pods in %q cannot mount the ConfigMap of %s, which is in the namespace of the release" (include "outrigger.namespace" .root) $in)) -}}
{{- end -}}
{{- if and $c.name $c.map -}}
{{- include "outrigger.problem" (merge (dict "path" (printf "%s.name" $in) "remove" (list (printf "%s.name" $in))
  "reason" (printf "%[1]s.map is also set, and the configs are either in the ConfigMap %[2]q or in %[1]s.map" $in $c.name)
  "instead" (printf "remove %[1]s.name or %[1]s.map" $in)) $of) -}}
{{- end -}}
{{- $noDefault := dict "path" (printf "%s.default" $in) "remove" (list (printf "%s.default" $in)) -}}
{{- if and $c.default $c.map (not (hasKey $c.map $c.default)) -}}
{{- include "outrigger.problem" (merge (dict "reason" (printf "%q is not in %s.map, which has %s" $c.default $in (keys $c.map | sortAlpha | join ", "))
  "instead" "write one of these names, or remove it") $noDefault $of) -}}
{{- else if and $c.default (not $c.name) (not $c.map) -}}
{{- include "outrigger.problem" (merge (dict "reason" (printf "%q names no config, because the chart has no configs" $c.default)
  "instead" (printf "set %[1]s.map or %[1]s.name, or remove it" $in)) $noDefault $of) -}}
{{- end -}}
{{- range $name, $text := $c.map -}}
{{- $at := printf "%s.map.%s" $in $name -}}
{{- if not (regexMatch `^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$` $name) -}}
{{- include "outrigger.problem" (merge (dict "path" (printf "%s.map" $in) "reason" (printf "%q is not a valid name: a label selects the config, so the name must be a valid label value" $name)
  "instead" "write at most 63 letters, digits and - _ . that begin and end with a letter or digit") $of) -}}
{{- end -}}
{{- with (fromYaml $text).Error -}}
{{- include "outrigger.problem" (merge (dict "path" $at "reason" (printf "invalid config: %s" .) "instead" "correct the YAML") $of) -}}
{{- else -}}
{{- range $.fixed -}}
{{- include "outrigger.checkOverridden" (dict "root" $.root "at" $at "text" $text "rule" .) -}}
{{- end -}}
{{- if and $resourceConfig (include "outrigger.configValue" (dict "text" $text "path" (list "sharing"))) -}}
{{- include "outrigger.problem" (merge (dict "path" $at "reason" "sharing and resourceConfig are both set, and both define how GPUs are shared"
  "instead" "remove one of them" "remove" (list (include "outrigger.settingPath" (dict "root" $.root "name" "resourceConfig")))) $of) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The chart's values take precedence over the config file, as variables do. A file
that contradicts them would be overridden silently. */ -}}
{{- define "outrigger.checkOverridden" -}}
{{- $is := toJson .rule.is -}}
{{- $value := include "outrigger.configValue" (dict "text" .text "path" (concat (list "flags") (splitList "." .rule.key))) -}}
{{- if and $value (ne $value $is) -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" .at
  "reason" (printf "flags.%s is %s, but %s" .rule.key $value (default (printf "the chart sets it to %s" $is) .rule.why))
  "instead" (default (printf "set %s of the chart, and remove it from the config" (default "" .rule.by)) .rule.fix)) -}}
{{- end -}}
{{- end -}}
