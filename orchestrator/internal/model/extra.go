package model

// The types of conditions that a policy has only while they are True.
const (
	// ConditionValuesIgnored names the values that have no effect, or another default than in NVIDIA's chart.
	ConditionValuesIgnored = "ValuesIgnored"
	// ConditionOtherOperator names objects of NVIDIA's GPU Operator, which would configure the same nodes.
	ConditionOtherOperator = "OtherOperator"
)

// The reasons of these conditions.
const (
	ReasonWithoutEffect = "WithoutEffect"
	ReasonObjectsFound  = "ObjectsFound"
)
