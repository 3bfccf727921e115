{{- /* Rejects components that NVIDIA's chart installs and this chart does not. A chart that is
present, under the same key or under the name in the third column, takes precedence. */ -}}
{{- define "outrigger.check" -}}
{{- $wrong := list -}}
{{- range include "outrigger.unsupported" . | fromYamlArray -}}
{{- $at := $.Values -}}
{{- range splitList "." (first .) }}{{ $at = get (kindIs "map" $at | ternary $at dict) . }}{{ end -}}
{{- $chart := gt (len .) 2 | ternary (last .) (splitList "." (first .) | first) -}}
{{- if and $at (ne (toString $at) "false") (not (hasKey $.Subcharts $chart)) -}}
{{- $wrong = append $wrong (printf "%s: %s" (first .) (index . 1)) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "gds" "gdrcopy" -}}
{{- if and (dig "enabled" false (get $.Values $key | default dict)) (not (include "outrigger.enabled" (dict "root" $ "key" "driver"))) -}}
{{- $wrong = append $wrong (printf "%s.enabled: only the driver loader loads this module; set driver.enabled to true, or this key to false" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.pools (not .Values.orchestrator.enabled) -}}
{{- $wrong = append $wrong "pools: Helm gives all nodes the same values; set orchestrator.enabled to true, or remove the pools" -}}
{{- end -}}
{{- if and .Values.extraObjects (eq "outrigger" .Release.Service) -}}
{{- $wrong = append $wrong "extraObjects: the orchestrator has no right to apply other objects; set them in the values of the Helm release, or apply them with kubectl" -}}
{{- end -}}
{{- if $wrong }}{{ fail (join "\n" $wrong) }}{{ end -}}
{{- end -}}

{{- /* A line for each value without effect, and for each value whose default in NVIDIA's chart is another one, if other
values rely on it, as a YAML list. */ -}}
{{- define "outrigger.ignored" -}}
{{- $parts := list (dict "values" .Values) -}}
{{- range $i, $pool := .Values.pools }}{{ $parts = append $parts (dict "values" (default dict $pool.values) "at" (printf "pools[%d].values." $i)) }}{{ end -}}
{{- $lines := list -}}
{{- range $part := $parts -}}
{{- $lines = include "outrigger.asked" (dict "values" .values "at" .at "table" (include "outrigger.withoutEffect" $ | fromYamlArray)) | fromYamlArray | concat $lines -}}
{{- range $row := include "outrigger.otherDefaults" $ | fromYamlArray -}}
{{- $asked := list -}}
{{- range (index $row 2) }}{{ $asked = append $asked (list . "") }}{{ end -}}
{{- $asked = include "outrigger.asked" (dict "values" $part.values "table" $asked) | fromYamlArray -}}
{{- $value := dict "it" $part.values -}}
{{- range splitList "." (first $row) }}{{ $value = dict "it" (get (kindIs "map" $value.it | ternary $value.it dict) .) }}{{ end -}}
{{- if and $asked (has $value.it (list nil "" )) }}{{ $lines = append $lines (printf "%s%s: %s" (default "" $part.at) (first $row) (index $row 1)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $lines -}}
{{- end -}}

{{- /* Keys whose default in NVIDIA's chart is another one, each with the difference and with the keys that rely on it. */ -}}
{{- define "outrigger.otherDefaults" -}}
- [driver.enabled, "the default is false here, and true in NVIDIA's chart; set it to true to install the driver, or to false to use the driver of the host", [driver.repository, driver.image, driver.version]]
- [migManager.config.default, "the default is empty here, and all-disabled in NVIDIA's chart; set it to all-disabled to disable MIG on nodes without the label nvidia.com/mig.config", [migManager.config.name, migManager.config.create]]
{{- end -}}

{{- /* The values that must be off, each with the fix. */ -}}
{{- define "outrigger.unsupported" -}}
- [dcgm.enabled, "this release has no DCGM, and dcgmExporter needs none; set it to false"]
- [nodeStatusExporter.enabled, "the agents serve /metrics themselves; set it to false"]
- [vgpuManager.enabled, "GPUs for virtual machines are not supported; set it to false"]
- [sandboxWorkloads.enabled, "GPUs for virtual machines are not supported; set it to false"]
- [kataManager.enabled, "GPUs for virtual machines are not supported; set it to false"]
- [gpuCluster.deployCR, "use draDriver.enabled for Dynamic Resource Allocation, and set this to false"]
- [platform.openshift, "OpenShift is not supported; set it to false"]
- [nfd.enabled, "only Helm installs Node Feature Discovery, and only from the package of this chart: use outrigger-VERSION.tgz of a release or of \"make charts\", or set it to false, because feature discovery finds the nodes with GPUs itself", node-feature-discovery]
- [nfd.nodefeaturerules, "this chart has no rules for Node Feature Discovery; set it to false"]
{{- end -}}
