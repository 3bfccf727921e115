{{- /* The defaults of the parent chart, as YAML. The chart outrigger defines this template, and its
template replaces this one. */ -}}
{{- define "outrigger.parentDefaults" -}}{}{{- end -}}

{{- /* Gives values that are null or missing their defaults: Helm removes the default of a value that a user
sets to null. Each file that renders something includes it first. Argument: (dict "root" $ "name" the
name of the chart). */ -}}
{{- define "outrigger.withDefaults" -}}
{{- include "outrigger.withoutNulls" .root.Values -}}
{{- $parent := include "outrigger.parentDefaults" .root | fromYaml -}}
{{- $global := get $parent "global" | default dict -}}
{{- with index .root.Chart.Annotations "outrigger.dev/values-key" }}{{ $parent = get $parent . | default dict }}{{ end -}}
{{- range $defaults := list $parent (include (printf "%s.defaults" .name) .root | fromYaml) (dict "global" $global) -}}
{{- include "outrigger.fill" (dict "into" $.root.Values "defaults" $defaults) -}}
{{- end -}}
{{- end -}}

{{- /* Removes the keys without a value from a map. */ -}}
{{- define "outrigger.withoutNulls" -}}
{{- $values := . -}}
{{- range $key, $value := $values -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $values $key }}{{ end -}}
{{- if kindIs "map" $value }}{{ include "outrigger.withoutNulls" $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Adds the missing keys of a map of defaults to a map. Argument: (dict "into" … "defaults" …). */ -}}
{{- define "outrigger.fill" -}}
{{- $into := .into -}}
{{- range $key, $default := .defaults -}}
{{- $value := get $into $key -}}
{{- if and (not (hasKey $into $key)) (not (kindIs "invalid" $default)) -}}
{{- $_ := set $into $key $default -}}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) -}}
{{- include "outrigger.fill" (dict "into" $value "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Removes the keys whose values are the defaults from a map. Argument: (dict "values" … "defaults" …). */ -}}
{{- define "outrigger.withoutDefaults" -}}
{{- $values := .values -}}
{{- range $key, $default := .defaults -}}
{{- $value := get $values $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $default) -}}
{{- include "outrigger.withoutDefaults" (dict "values" $value "defaults" $default) -}}
{{- if not $value }}{{ $_ := unset $values $key }}{{ end -}}
{{- else if eq (toJson $value) (toJson $default) }}{{ $_ := unset $values $key }}{{ end -}}
{{- end -}}
{{- end -}}
