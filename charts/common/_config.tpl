{{- /* The ConfigMap with the config files; empty where there is none. */ -}}
{{- define "outrigger.configMapName" -}}
{{- if .Values.config.name -}}
{{- .Values.config.name -}}
{{- else if .Values.config.map -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "configs") -}}
{{- end -}}
{{- end -}}

{{- /* Where NVIDIA's chart mounts them too. */ -}}
{{- define "outrigger.configDir" -}}
/available-configs
{{- end -}}

{{- define "outrigger.configEnv" -}}
{{- if include "outrigger.configMapName" . -}}
- name: CONFIG_FILE_SRCDIR
  value: {{ include "outrigger.configDir" . }}
{{- with .Values.config.default }}
- name: DEFAULT_CONFIG
  value: {{ . | quote }}
{{- end }}
{{- with .Values.config.fallbackStrategies }}
- name: FALLBACK_STRATEGIES
  value: {{ join "," . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "outrigger.configMount" -}}
{{- if include "outrigger.configMapName" . -}}
# The folder, not its files: the kubelet exchanges what is in it when the
# ConfigMap changes, and the agent sees that.
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

{{- /* What a config file says at a path, as JSON, of (dict "text" … "path" (list …));
empty where it says nothing. */ -}}
{{- define "outrigger.configValue" -}}
{{- $at := fromYaml .text -}}
{{- range .path -}}
{{- $at = kindIs "map" $at | ternary $at dict | dig . "" -}}
{{- end -}}
{{- with $at }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- define "outrigger.refuseResourceConfig" -}}
{{- range $entry := splitList "," (default "" .Values.resourceConfig) -}}
{{- if not (regexMatch `^\s*([^:\s]+\s*(:\s*[^:\s]+\s*(:\s*(-1|[1-9][0-9]*)\s*)?)?)?$` $entry) -}}
{{- fail (printf "resourceConfig: entry %q must be <original>[:<new>[:<replicas>]], like gpu:sharedgpu:4, with replicas from 1 upwards, or -1 for one for each 1000 MiB of memory" $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuses configs that cannot work, of (dict "root" $ "fixed" what the chart sets).
An entry of "fixed" is (dict "key" below flags "is" the value and either "by" the
chart's value that sets it, or "fix" what to do). */ -}}
{{- define "outrigger.refuseConfig" -}}
{{- $v := .root.Values -}}
{{- $c := $v.config -}}
{{- $fixed := .fixed -}}
{{- if and $c.name $c.map -}}
{{- fail (printf "config.name and config.map are both set: either the ConfigMap %q has the configs, or the chart makes one of config.map: remove one of them" $c.name) -}}
{{- end -}}
{{- if and $c.default $c.map (not (hasKey $c.map $c.default)) -}}
{{- fail (printf "config.default: %q is not in config.map: there is %s" $c.default (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and $c.default (not (include "outrigger.configMapName" .root)) -}}
{{- fail (printf "config.default: there are no configs of which %q could be one: set config.map or config.name" $c.default) -}}
{{- end -}}
{{- range $name, $text := $c.map -}}
{{- if not (regexMatch `^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$` $name) -}}
{{- fail (printf "config.map: %q cannot be the name of a config, which is the value of a label: letters and digits, at most 63, and between them - _ ." $name) -}}
{{- end -}}
{{- with (fromYaml $text).Error -}}
{{- fail (printf "config.map.%s: not the YAML of a config: %s" $name .) -}}
{{- end -}}
{{- range $fixed -}}
{{- include "outrigger.refuseOverridden" (dict "name" $name "text" $text "rule" .) -}}
{{- end -}}
{{- if and $v.resourceConfig (include "outrigger.configValue" (dict "text" $text "path" (list "sharing"))) -}}
{{- fail (printf "config.map.%s: it has sharing, and resourceConfig is set too: both say how GPUs are shared, remove one of them" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The chart's values go before the config file, as variables do: a file that
says otherwise would be overridden without a word. */ -}}
{{- define "outrigger.refuseOverridden" -}}
{{- $is := toJson .rule.is -}}
{{- $value := include "outrigger.configValue" (dict "text" .text "path" (concat (list "flags") (splitList "." .rule.key))) -}}
{{- if and $value (ne $value $is) -}}
{{- $fix := printf "but %s is what the chart sets: set %s of the chart instead" $is (default "" .rule.by) -}}
{{- fail (printf "config.map.%s: flags.%s is %s, %s" .name .rule.key $value (default $fix .rule.fix)) -}}
{{- end -}}
{{- end -}}
