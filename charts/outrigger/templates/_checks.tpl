{{- /* Renders all agents once for a release, and fails with all problems of the values. Each file that renders something
includes it first, because Helm stops at the first file that fails. .Release.rendered then has the objects of each agent by
its name, or, with the orchestrator, the result of outrigger.collected. */ -}}
{{- define "outrigger.checked" -}}
{{- include "outrigger.withDefaults" (dict "root" . "name" "outrigger") -}}
{{- if not (hasKey .Release "rendered") -}}
{{- if not (hasKey .Release "problems") }}{{ $_ := set .Release "problems" dict }}{{ end -}}
{{- $rendered := dict -}}
{{- include "outrigger.check" . -}}
{{- if .Values.orchestrator.enabled -}}
{{- $_ := set $rendered "collected" (include "outrigger.collected" .) -}}
{{- with .Subcharts.operator -}}
{{- include "orchestrator.names" . -}}
{{- include "orchestrator.check" (dict "Values" .Values "Chart" .Chart "Release" .Release "Capabilities" .Capabilities
  "Template" (dict "BasePath" "outrigger/charts/operator/templates")) -}}
{{- end -}}
{{- else -}}
{{- range include "outrigger.agentKeys" . | fromYamlArray -}}
{{- $_ := set $rendered .name (include "outrigger.agentObjects" (dict "root" $ "name" .name "key" .key)) -}}
{{- end -}}
{{- end -}}
{{- include "outrigger.report" . -}}
{{- $_ := set .Release "rendered" $rendered -}}
{{- end -}}
{{- end -}}

{{- /* Rejects values of this chart that cannot work, such as components that NVIDIA's chart installs and this chart does not. A chart
that is present takes precedence. A pool has its path in .At. */ -}}
{{- define "outrigger.check" -}}
{{- $at := default "" .At -}}
{{- range include "outrigger.unsupported" . | fromYamlArray -}}
{{- $value := $.Values -}}
{{- range splitList "." (first .) }}{{ $value = get (kindIs "map" $value | ternary $value dict) . }}{{ end -}}
{{- if and $value (ne (toString $value) "false") (not (hasKey $.Subcharts (splitList "." (first .) | first))) -}}
{{- $path := printf "%s%s" $at (first .) -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" $path "reason" (index . 1) "instead" (last .) "set" (dict $path false)) -}}
{{- end -}}
{{- end -}}
{{- $rootFS := dig "rootFS" "" (default dict .Values.hostPaths) | default "/" -}}
{{- if ne "/" $rootFS -}}
{{- $path := printf "%shostPaths.rootFS" $at -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" (printf "%q is not the root folder of the host" $rootFS) "set" (dict $path "/")) -}}
{{- end -}}
{{- range $key := list "gds" "gdrcopy" -}}
{{- if and (dig "enabled" false (get $.Values $key | default dict)) (not (include "outrigger.enabled" (dict "root" $ "key" "driver"))) -}}
{{- $path := printf "%s%s.enabled" $at $key -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" $path "reason" "only the driver loader loads this module"
  "instead" "set driver.enabled to true, or this key to false" "set" (dict $path false)) -}}
{{- end -}}
{{- end -}}
{{- if and (include "outrigger.enabled" (dict "root" . "key" "sim")) (include "outrigger.enabled" (dict "root" . "key" "driver")) -}}
{{- $path := printf "%sdriver.enabled" $at -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" $path "reason" "simulated GPUs have a simulated driver, and the driver loader would load the driver of real GPUs"
  "instead" "set it to false, or set sim.enabled to false" "set" (dict $path false)) -}}
{{- end -}}
{{- if and .Values.pools (not .Values.orchestrator.enabled) -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" "pools" "reason" "Helm gives all nodes the same values"
  "instead" "set orchestrator.enabled to true, or remove the pools" "remove" (list "pools")) -}}
{{- end -}}
{{- if and .Values.extraObjects (eq "outrigger" .Release.Service) -}}
{{- include "outrigger.problem" (dict "root" . "full" true "path" "extraObjects" "reason" "the orchestrator has no right to apply other objects"
  "instead" "set them in the values of the Helm release, or apply them with kubectl" "remove" (list "extraObjects")) -}}
{{- end -}}
{{- end -}}

{{- /* A line for each value without effect, and for each value whose default in NVIDIA's chart is another one, if other
values rely on it, as a YAML list. */ -}}
{{- define "outrigger.ignored" -}}
{{- $parts := list (dict "values" .Values) -}}
{{- range $i, $pool := .Values.pools }}{{ $parts = append $parts (dict "values" (default dict $pool.values) "at" (printf "pools[%d].values." $i)) }}{{ end -}}
{{- range $part := $parts -}}
{{- /* NVIDIA's chart has draDriver without enabled, and uses it only with gpuCluster.deployCR. */ -}}
{{- if not (get $part.values "draDriver" | default dict).enabled }}{{ $_ := set $part "values" (omit $part.values "draDriver") }}{{ end -}}
{{- end -}}
{{- $lines := list -}}
{{- range $part := $parts -}}
{{- $lines = include "outrigger.asked" (dict "values" .values "at" .at "table" (include "outrigger.withoutEffect" $ | fromYamlArray)) | fromYamlArray | concat $lines -}}
{{- range $path := include "outrigger.imageParts" $ | fromYamlArray -}}
{{- $at := dict "it" $part.values "off" false -}}
{{- range splitList "." $path -}}
{{- $_ := set $at "it" (get $at.it . | default dict) -}}
{{- if eq "false" (toString $at.it.enabled) }}{{ $_ := set $at "off" true }}{{ end -}}
{{- end -}}
{{- if not $at.off }}{{ with include "outrigger.theirImageNote" (dict "values" $at.it "at" (printf "%s%s." (default "" $part.at) $path)) }}{{ $lines = append $lines . }}{{ end }}{{ end -}}
{{- end -}}
{{- if and (dig "enabled" false (get .values "nfd" | default dict)) (not (hasKey $.Subcharts "node-feature-discovery")) -}}
{{- $lines = append $lines (printf "%snfd.enabled: this copy of the chart has no Node Feature Discovery, and feature discovery finds the nodes with GPUs itself; set it to false, or install outrigger-VERSION.tgz of a release or of \"make charts\"" (default "" .at)) -}}
{{- end -}}
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

{{- /* The values that must be off, each with the reason and the fix. */ -}}
{{- define "outrigger.unsupported" -}}
- [dcgm.enabled, "this release has no DCGM, and dcgmExporter needs none", set it to false]
- [nodeStatusExporter.enabled, the agents serve /metrics themselves, set it to false]
- [vgpuManager.enabled, GPUs for virtual machines are not supported, set it to false]
- [sandboxWorkloads.enabled, GPUs for virtual machines are not supported, set it to false]
- [kataManager.enabled, GPUs for virtual machines are not supported, set it to false]
- [gpuCluster.deployCR, there is no GPUCluster, "use draDriver.enabled for Dynamic Resource Allocation, and set this to false"]
- [platform.openshift, OpenShift is not supported, set it to false]
{{- end -}}

{{- /* The parts whose values may name an image of NVIDIA, which has no effect. */ -}}
{{- define "outrigger.imageParts" -}}
[devicePlugin, toolkit, gfd, dcgmExporter, migManager, validator, draPlugin, draDriver, operator, operator.validator, driver.manager]
{{- end -}}
