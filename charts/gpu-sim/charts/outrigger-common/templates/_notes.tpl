{{- /* The notes on values of NVIDIA's charts that mean something else in a chart that is installed alone. Empty if
none is set. Argument: (dict "root" $ "name" the name of the chart "notes" a list of (list "path.of.value"
"meaning"), for keys with another meaning). */ -}}
{{- define "outrigger.foreignNotes" -}}
{{- $table := concat .notes (include (printf "%s.withoutEffect" .name) .root | fromYamlArray) -}}
{{- $lines := include "outrigger.asked" (dict "values" .root.Values "table" $table) | fromYamlArray -}}
{{- range $at := list "" "manager." -}}
{{- $values := ternary $.root.Values (get $.root.Values "manager" | default dict) (eq $at "") -}}
{{- if or $at (ne $.name "driver-loader") -}}
{{- with include "outrigger.theirImageNote" (dict "values" $values "at" $at) }}{{ $lines = append $lines . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- with $lines }}
Values of NVIDIA's chart that have no effect or mean something else here:
  {{ join "\n  " . }}
{{ end -}}
{{- end -}}

{{- /* A line for each key of a table that the values set, as a YAML list, without the keys of parts that are disabled.
Argument: (dict "values" … "table" a list of (list "path.of.value" "text") "at" the path of the values). */ -}}
{{- define "outrigger.asked" -}}
{{- $lines := list -}}
{{- range $row := .table -}}
{{- $at := dict "value" $.values -}}
{{- range splitList "." (first $row) -}}
{{- if and (kindIs "map" $at.value) (ne "false" (toString $at.value.enabled)) }}{{ $_ := set $at "value" (get $at.value .) }}{{ else }}{{ $_ := set $at "value" "" }}{{ end -}}
{{- end -}}
{{- if include "outrigger.asks" $at.value }}{{ $lines = append $lines (printf "%s%s: %s" (default "" $.at) (first $row) (last $row)) }}{{ end -}}
{{- end -}}
{{- toYaml $lines -}}
{{- end -}}

{{- /* "true" if a value asks for something: if it has a leaf that is not null, empty, 0 or false, and "enabled" is not
false. */ -}}
{{- define "outrigger.asks" -}}
{{- if not (kindIs "map" .) -}}
{{- if not (empty .) }}true{{ end -}}
{{- else if ne "false" (toString .enabled) -}}
{{- range . }}{{ include "outrigger.asks" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* How to uninstall a release without the orchestrator: the agents ask the API server whether their DaemonSets are
deleted, and write to their Nodes. Argument: (dict "root" $ "what" the things that the agents remove). */ -}}
{{- define "outrigger.uninstallNote" -}}
When their DaemonSets are deleted, the pods remove {{ .what }}. `helm uninstall` alone also deletes
the permissions that they need for that. To uninstall, run these commands:
  kubectl -n {{ include "outrigger.namespace" .root }} delete daemonsets --cascade=foreground \
    --selector app.kubernetes.io/part-of=outrigger,app.kubernetes.io/instance={{ .root.Release.Name }}
  helm -n {{ .root.Release.Namespace }} uninstall {{ .root.Release.Name }}
{{- end -}}
