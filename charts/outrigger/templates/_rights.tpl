{{- /* The orchestrator applies the workloads of the agents. Helm installs all objects that grant rights or that
tenants share, because the orchestrator must not be able to change them. outrigger.releaseKinds lists the
kinds of these objects. outrigger.collect renders the agents, and assigns each object to Helm or to the
orchestrator. */ -}}
{{- define "outrigger.releaseKinds" -}}
rights: [ServiceAccount, ClusterRole, ClusterRoleBinding, Role, RoleBinding, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding]
shared: [Namespace, RuntimeClass, DeviceClass]
{{- end -}}

{{- /* The resources of the kinds that the orchestrator applies. */ -}}
{{- define "outrigger.workKinds" -}}
DaemonSet: {group: apps, resource: daemonsets}
Deployment: {group: apps, resource: deployments}
Service: {group: "", resource: services}
ConfigMap: {group: "", resource: configmaps}
NetworkPolicy: {group: networking.k8s.io, resource: networkpolicies}
PodMonitor: {group: monitoring.coreos.com, resource: podmonitors}
ServiceMonitor: {group: monitoring.coreos.com, resource: servicemonitors}
PrometheusRule: {group: monitoring.coreos.com, resource: prometheusrules}
{{- end -}}

{{- /* The objects of all agents and pools, as YAML with these keys: release lists the objects that Helm installs;
names has the names of the other objects, by namespace and kind ("*" at the end of a name stands for any text); accounts, images and hostPaths have the
accounts, images and host paths of their pods. release includes the rights of disabled agents: when a user
disables an agent, it needs them to clean up its nodes. The annotation outrigger.dev/idle-rights of a chart can switch this off. */ -}}
{{- define "outrigger.collected" -}}
{{- $into := dict "release" list "names" dict "accounts" dict "images" dict "hostPaths" dict "seen" dict -}}
{{- $root := . -}}
{{- range $agent := include "outrigger.agentKeys" . | fromYamlArray -}}
{{- $sub := get $root.Subcharts $agent.key -}}
{{- include "outrigger.collect" (dict "root" $root "agent" $agent "into" $into "idle" (ne "false" (index $sub.Chart.Annotations "outrigger.dev/idle-rights" | toString))) -}}
{{- if ne "true" (index $sub.Chart.Annotations "outrigger.dev/all-nodes" | toString) -}}
{{- range $i, $pool := $root.Values.pools -}}
{{- $values := deepCopy (default dict $pool.values) -}}
{{- include "outrigger.withoutNulls" $values -}}
{{- include "outrigger.fill" (dict "into" $values "defaults" (deepCopy $root.Values)) -}}
{{- $release := dict "Name" (printf "%s-%s" $root.Release.Name $pool.name) "Namespace" $root.Release.Namespace "Service" $root.Release.Service "problems" $root.Release.problems -}}
{{- $subcharts := dict -}}
{{- range $key, $other := $root.Subcharts -}}
{{- $_ := set $subcharts $key (dict "Values" (get $values $key) "Chart" $other.Chart "Release" $release "Capabilities" $root.Capabilities) -}}
{{- end -}}
{{- $poolRoot := dict "Values" $values "Chart" $root.Chart "Release" $release "Capabilities" $root.Capabilities "Subcharts" $subcharts
  "At" (printf "pools[%d].values." $i) -}}
{{- if not (hasKey $into.seen (printf "pool %d" $i)) -}}
{{- $_ := set $into.seen (printf "pool %d" $i) true -}}
{{- include "outrigger.check" $poolRoot -}}
{{- end -}}
{{- include "outrigger.collect" (dict "root" $poolRoot "agent" $agent "into" $into) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "outrigger.configMapOfAll" . }}{{ include "outrigger.collectWork" (dict "object" (fromYaml .) "into" $into) }}{{ end -}}
{{- toYaml (omit $into "seen") -}}
{{- end -}}

{{- /* Adds the objects of an agent to into. Argument: (dict "root" … "agent" … "into" … "idle" …). agent has the
name and the key of the agent. If idle is true, the rights of a disabled agent are added too. */ -}}
{{- define "outrigger.collect" -}}
{{- $into := .into -}}
{{- $kinds := include "outrigger.releaseKinds" . | fromYaml -}}
{{- $enabled := include "outrigger.enabled" (dict "root" .root "key" .agent.key) -}}
{{- $once := printf "one for all pools: %s" .agent.name -}}
{{- $had := hasKey $into.seen $once -}}
{{- $texts := include "outrigger.agentObjects" (dict "root" .root "name" .agent.name "key" .agent.key "idle" .idle) -}}
{{- range $text := regexSplit `(?m)^---$` $texts -1 -}}
{{- $document := fromYaml $text -}}
{{- range $object := ternary $document.items (list $document) (eq "List" (toString $document.kind)) -}}
{{- /* Skip Pods: they are tests that Helm runs (helm test). */ -}}
{{- if and $object.kind (ne "Pod" (toString $object.kind)) -}}
{{- $id := printf "%s %s %s" $object.kind (toString $object.metadata.namespace) $object.metadata.name -}}
{{- $shared := eq "true" (index (default dict $object.metadata.labels) "outrigger.dev/one-for-all-pools" | toString) -}}
{{- if and $shared $enabled }}{{ $_ := set $into.seen $once true }}{{ end -}}
{{- if or (hasKey $into.seen $id) (and $shared (or $had (not $enabled))) -}}
{{- else if or (has $object.kind $kinds.rights) (and $enabled (has $object.kind $kinds.shared)) -}}
{{- $_ := set $into.seen $id true -}}
{{- $_ := set $into "release" (append $into.release $object) -}}
{{- else if and $enabled (not (has $object.kind $kinds.shared)) -}}
{{- $_ := set $into.seen $id true -}}
{{- include "outrigger.collectWork" (dict "object" $object "into" $into) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Adds an object that the orchestrator applies to into. Argument: (dict "object" … "into" …). */ -}}
{{- define "outrigger.collectWork" -}}
{{- $into := .into -}}
{{- $object := .object -}}
{{- $spec := dict -}}
{{- if ne $object.kind "PodTemplate" -}}
{{- if not (hasKey (include "outrigger.workKinds" . | fromYaml) $object.kind) -}}
{{- fail (printf "%s %s: the orchestrator has no right to apply this kind: add it to outrigger.workKinds" $object.kind $object.metadata.name) -}}
{{- end -}}
{{- $namespace := $object.metadata.namespace -}}
{{- if not (hasKey $into.names $namespace) }}{{ $_ := set $into.names $namespace dict }}{{ end -}}
{{- $names := get $into.names $namespace -}}
{{- if not (hasKey $names $object.kind) }}{{ $_ := set $names $object.kind dict }}{{ end -}}
{{- $_ := set (get $names $object.kind) $object.metadata.name true -}}
{{- with $object.spec }}{{ with .template }}{{ $spec = .spec }}{{ end }}{{ end -}}
{{- else -}}
{{- $spec = $object.template.spec -}}
{{- end -}}
{{- if $spec.containers -}}
{{- with $spec.serviceAccountName }}{{ $_ := set $into.accounts . true }}{{ end -}}
{{- range concat $spec.containers (default list $spec.initContainers) -}}
{{- $_ := set $into.images (regexReplaceAll `(:[^:/@]+)?(@.*)?$` .image "") true -}}
{{- end -}}
{{- range $spec.volumes -}}
{{- with .hostPath }}{{ $_ := set $into.hostPaths .path true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
