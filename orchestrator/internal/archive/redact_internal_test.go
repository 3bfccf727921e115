package archive

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestTexts(t *testing.T) {
	const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7xSEED\nc2VlZA==SEED\n-----END RSA PRIVATE KEY-----"
	for in, want := range map[string]string{
		"level=info msg=\"the agent starts\"":                              "level=info msg=\"the agent starts\"",
		"password=SEED next":                                               "password=REMOVED next",
		"DB_PASSWORD: SEED":                                                "DB_PASSWORD: REMOVED",
		`{"token":"SEED with words","a":1}`:                                `{"token":"REMOVED","a":1}`,
		`msg="{\"api_key\":\"SEED\",\"a\":1}"`:                             `msg="{\"api_key\":\"REMOVED\",\"a\":1}"`,
		"--ngc-api-key SEED --v 2":                                         "--ngc-api-key REMOVED --v 2",
		"secret password=SEED":                                             "secret password=REMOVED",
		"secretName=gpu-licence password-file=/etc/password":               "secretName=gpu-licence password-file=/etc/password",
		"secretName=token=SEED":                                            "secretName=token=REMOVED",
		"GET https://user:SEED@registry.example.com/v2/?a=b":               "GET https://REMOVED@registry.example.com/v2/?a=b",
		"GET https://registry.example.com/v2/?access_token=SEED&a=b":       "GET https://registry.example.com/v2/?access_token=REMOVED&a=b",
		"Authorization: Basic U0VFRDpTRUVE":                                "Authorization: REMOVED",
		"sends bearer SEEDSEEDSEED.SEED":                                   "sends bearer REMOVED",
		"eyJhbGciSEED.eyJzdWIiSEED.SEED-_x ok":                             "REMOVED ok",
		"pull with nvapi-SEEDSEEDSEEDSEEDSEED":                             "pull with REMOVED",
		"before " + key + " after":                                         "before REMOVED after",
		strings.ReplaceAll(key, "\n", `\n`):                                "REMOVED",
		"MIIEpAIBAAKCAQEA7xSEED\nSEED==\n-----END PRIVATE KEY-----\nafter": "REMOVED\nafter",
		"-----BEGIN EC PRIVATE KEY-----\nSEED":                             "REMOVED",
		`{"auths":{"r":{"auth":"U0VFRA=="}}}`:                              `{"auths":{"r":{"auth":"REMOVED"}}}`,
		"client-key-data: LS0tLS1CRUdJTiBSU0VFRA==":                        "client-key-data: REMOVED",
		`secrets "registry" is forbidden: no permission`:                   `secrets "registry" is forbidden: no permission`,
		"auth: U0VFRDpTRUVE":                                               "auth: REMOVED",
		"DefaultEndpointsProtocol=https;AccountKey=SEED==;End=x":           "DefaultEndpointsProtocol=https;AccountKey=REMOVED;End=x",
		"Server=a;Pwd=SEED;":                                               "Server=a;Pwd=REMOVED;",
		"Cookie: SEED":                                                     "Cookie: REMOVED",
		"GET https://s3/a?X-Amz-Signature=SEED&b=c":                        "GET https://s3/a?X-Amz-Signature=REMOVED&b=c",
		"--config-key=b publicKey=a monkey: b":                             "--config-key=b publicKey=a monkey: b",
		"Authorization: SEED\nnext":                                        "Authorization: REMOVED\nnext",
		"password=\"SEED with \\\" quotes\" next":                          "password=\"REMOVED\" next",
		"password='SEED\nnext":                                             "password='REMOVED\nnext",
		"password= next":                                                   "password= REMOVED",
		"token=https://a:SEED@b/ c":                                        "token=REMOVED c",
		"--password=p,SEED next":                                           "--password=REMOVED next",
		"token=ab)SEED":                                                    "token=REMOVED",
		"token=ab]SEED}SEED;SEED&SEED'SEED":                                "token=REMOVED",
		"(token=SEED) next":                                                "(token=REMOVED) next",
		"{token: a,SEED, next: 1}":                                         "{token: REMOVED, next: 1}",
		"{a: 1, token: SEED}":                                              "{a: 1, token: REMOVED}",
		"login failed: password=a;SEED; next":                              "login failed: password=REMOVED; next",
		"docker run user@host token":                                       "docker run user@host token",
	} {
		assert.Check(t, removals{}.text(in) == want, "text(%q)\n%q, want\n%q", in, removals{}.text(in), want)
	}
}

func TestObjects(t *testing.T) {
	pod := map[string]any{
		"kind": "Pod",
		"metadata": map[string]any{
			"name": "a", "managedFields": []any{"x"}, "annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": "SEED", "example.com/token": "SEED", "example.com/url": "https://a:SEED@b/",
			},
		},
		"spec": map[string]any{
			"imagePullSecrets": []any{map[string]any{"name": "registry"}},
			"containers": []any{map[string]any{
				"args": []any{"--password", "SEED", "--token=SEED with, words", "--config-file", "/etc/a", "--secret-name", "kept"},
				"readinessProbe": map[string]any{"httpGet": map[string]any{"httpHeaders": []any{
					map[string]any{"name": "Authorization", "value": "SEED"}, map[string]any{"name": "X-Auth-Token", "value": "SEED"}, map[string]any{"name": "Host", "value": "a"},
				}}},
				"env": []any{map[string]any{"name": "A", "value": "SEED"}, map[string]any{"name": "B", "value": ""}, map[string]any{"name": "C"}},
			}},
			"volumes":      []any{map[string]any{"secret": map[string]any{"secretName": "registry"}}},
			"extraObjects": []any{map[string]any{"kind": "Secret", "stringData": map[string]any{"a": "SEED"}}},
		},
	}
	want := map[string]any{
		"kind":     "Pod",
		"metadata": map[string]any{"name": "a", "annotations": map[string]any{"example.com/token": mark, "example.com/url": "https://REMOVED@b/"}},
		"spec": map[string]any{
			"imagePullSecrets": []any{map[string]any{"name": "registry"}},
			"containers": []any{map[string]any{
				"args": []any{"--password", mark, "--token=" + mark, "--config-file", "/etc/a", "--secret-name", "kept"},
				"readinessProbe": map[string]any{"httpGet": map[string]any{"httpHeaders": []any{
					map[string]any{"name": "Authorization", "value": mark}, map[string]any{"name": "X-Auth-Token", "value": mark}, map[string]any{"name": "Host", "value": "a"},
				}}},
				"env": []any{map[string]any{"name": "A", "value": mark}, map[string]any{"name": "B", "value": ""}, map[string]any{"name": "C"}},
			}},
			"volumes":      []any{map[string]any{"secret": map[string]any{"secretName": "registry"}}},
			"extraObjects": []any{map[string]any{"kind": "Secret", "stringData": mark}},
		},
	}
	removed := removals{}
	removed.object(pod)
	assert.DeepEqual(t, pod, want)
	assert.DeepEqual(t, removed, removals{removedEnv: 1, removedAnnotation: 1, removedPassword: 5, removedURL: 1, removedSecret: 1})
}

// The values of one variable say which GPUs a container sees.
func TestVisibleDevicesStay(t *testing.T) {
	o := map[string]any{"env": []any{map[string]any{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}}}
	removed := removals{}
	removed.object(o)
	assert.DeepEqual(t, o, map[string]any{"env": []any{map[string]any{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}}})
}

// A log of one name after another takes minutes if the time grows with the square of its length, as each value can have a name.
func TestNamesInValues(t *testing.T) {
	text := strings.Repeat("secretName=", 6000)
	assert.Equal(t, removals{}.text(text), text)
	assert.Equal(t, removals{}.text(text+"token=SEED"), text+"token="+mark)
}
