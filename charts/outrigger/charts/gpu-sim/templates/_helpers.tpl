{{- /* The nodes with the label, and the nodes of each pool. */ -}}
{{- define "gpu-sim.affinity" -}}
{{- $terms := list (dict "matchExpressions" (list (dict "key" "outrigger.dev/simulated-gpus" "operator" "Exists"))) -}}
{{- range .Values.pools -}}
{{- $expressions := list -}}
{{- range $key, $value := .nodeSelector }}{{ $expressions = append $expressions (dict "key" $key "operator" "In" "values" (list $value)) }}{{ end -}}
{{- $terms = append $terms (dict "matchExpressions" $expressions) -}}
{{- end -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- toYaml $terms | nindent 6 }}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "gpu-sim.check" -}}
{{- $selectors := dict -}}
{{- range $i, $pool := .Values.pools -}}
{{- $selector := toJson $pool.nodeSelector -}}
{{- with get $selectors $selector }}
{{- include "outrigger.problem" (dict "root" $ "path" (printf "pools[%d].nodeSelector" $i) "reason" (printf "it selects the same nodes as pools[%s], which takes precedence" .)
  "instead" "remove one of the two pools, or change its labels") -}}
{{- else }}{{ $_ := set $selectors $selector (toString $i) }}{{ end -}}
{{- end -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- include "outrigger.problem" (dict "root" . "path" "updateStrategy.rollingUpdate.maxSurge" "reason" "one agent of a node changes its GPUs at a time"
  "instead" "use maxUnavailable" "remove" (list "updateStrategy.rollingUpdate.maxSurge")) -}}
{{- end -}}
{{- end -}}
