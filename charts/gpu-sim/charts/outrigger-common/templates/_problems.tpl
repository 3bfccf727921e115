{{- /* Problems of the values. A template that finds one records it and continues with a harmless text, so that
one run finds all of them. outrigger.report fails with the list. The list is in .Release, which all charts of a
release share. The program that renders the charts without Helm sets .Release.collect, and reads the list. */ -}}

{{- /* Records a problem. Argument: (dict "root" $ "path" the path of the value in this chart "reason" …
"instead" what to write instead). "full" means that the paths are complete, so that the path of the chart's values does
not come before them. "remove" is a list of values to remove, and "set" maps values to their new contents: following them
solves the problem. If there is no "instead", it names them. */ -}}
{{- define "outrigger.problem" -}}
{{- $prefix := "" -}}
{{- if not .full }}{{ $prefix = include "outrigger.path" .root }}{{ end -}}
{{- $changes := list -}}
{{- $texts := list -}}
{{- range $path, $value := .set -}}
{{- $changes = append $changes (dict "path" (printf "%s%s" $prefix $path) "value" $value) -}}
{{- $texts = append $texts (printf "set %s%s to %s" $prefix $path (kindIs "string" $value | ternary (quote $value | trimAll "\"") (toJson $value))) -}}
{{- end -}}
{{- $removed := list -}}
{{- range .remove }}{{ $removed = append $removed (printf "%s%s" $prefix .) }}{{ end -}}
{{- range $removed }}{{ $changes = append $changes (dict "path" .) }}{{ end -}}
{{- if gt (len $removed) 1 -}}
{{- $texts = append $texts (printf "remove %s and %s" (initial $removed | join ", ") (last $removed)) -}}
{{- else if $removed }}{{ $texts = append $texts (printf "remove %s" (first $removed)) }}{{ end -}}
{{- if not (hasKey .root.Release "problems") }}{{ $_ := set .root.Release "problems" dict }}{{ end -}}
{{- $path := printf "%s%s" $prefix .path -}}
{{- $line := printf "%s: %s" $path .reason -}}
{{- /* A pool also has the values of all nodes, whose problems are known. */ -}}
{{- if not (hasKey .root.Release.problems (regexReplaceAll `^pools\[[0-9]+\]\.values\.` $line "")) -}}
{{- $_ := set .root.Release.problems $line (dict "path" $path "reason" .reason "instead" (default (join " and " $texts) .instead) "changes" $changes) -}}
{{- end -}}
{{- end -}}

{{- /* Fails if there are problems, with a line for each. */ -}}
{{- define "outrigger.report" -}}
{{- $lines := list -}}
{{- range $line, $problem := .Release.problems }}{{ $lines = append $lines (printf "%s; %s" $line $problem.instead) }}{{ end -}}
{{- if and $lines (not .Release.collect) }}{{ fail (printf "\n%s" (join "\n" $lines)) }}{{ end -}}
{{- end -}}

{{- /* The path of a value that this chart or its parent chart sets, to be used with "full". Argument: (dict "root" $ "name"
the path in this chart). The chart outrigger copies some of its own keys to global. */ -}}
{{- define "outrigger.settingPath" -}}
{{- $own := dict "at" .root.Values -}}
{{- $parent := dict "at" (default dict .root.Values.global) -}}
{{- range $step := splitList "." .name -}}
{{- range $side := list $own $parent }}{{ $_ := set $side "at" (get (kindIs "map" $side.at | ternary $side.at dict) $step) }}{{ end -}}
{{- end -}}
{{- $copied := has (splitList "." .name | first) (list "mig" "cdi" "daemonsets" "hostPaths" "operator" "toolkit") -}}
{{- if or (not (empty $own.at)) (empty $parent.at) }}{{ include "outrigger.path" .root }}
{{- else -}}
{{- index (default dict .root.Chart.Annotations) "outrigger.dev/parent-path" }}{{ if not (and $copied (include "outrigger.parentRenders" .root)) }}global.{{ end -}}
{{- end -}}
{{- .name -}}
{{- end -}}

{{- /* Records that the cluster has no admission policies. */ -}}
{{- define "outrigger.noPolicies" -}}
{{- include "outrigger.problem" (dict "root" . "path" "admissionPolicy.create" "set" (dict "admissionPolicy.create" false)
  "reason" (printf "Kubernetes %s has no ValidatingAdmissionPolicy v1, which needs 1.30" .Capabilities.KubeVersion.Version)
  "instead" "set it to false, after reading \"Privileges and why\" in README.md") -}}
{{- end -}}
