/* cuda_ptx.c: reads the names and parameter types of kernels from PTX. */
#include "cuda_driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* without_comments returns a copy of text in which comments are spaces. */
static char *without_comments(const char *text)
{
	char *copy = strdup(text);

	for (char *p = copy; p != NULL && *p != '\0'; p++) {
		bool line = p[0] == '/' && p[1] == '/', block = p[0] == '/' && p[1] == '*';
		if (!line && !block)
			continue;
		const char *mark = line ? "\n" : "*/";
		char *end = strstr(p + 2, mark);
		end = end != NULL ? end + strlen(mark) - line : p + strlen(p);
		memset(p, ' ', (size_t)(end - p));
		p = end - 1;
	}
	return copy;
}

static bool word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

/* word copies the next word into out, and returns the text after the word.
 * Punctuation is a word of one character. At the end of the text, out is empty. */
static const char *word(const char *p, char *out, size_t size)
{
	size_t n = 0;

	while (isspace((unsigned char)*p))
		p++;
	do {
		if (*p != '\0' && n + 1 < size)
			out[n++] = *p;
		if (*p != '\0')
			p++;
	} while (n > 0 && word_char(out[0]) && word_char(*p));
	out[n] = '\0';
	return p;
}

/* add_type appends the type of a parameter. Signed and unsigned numbers of one
 * width are passed in the same way, so they have the same type. */
static void add_type(char *signature, size_t size, const char *type, bool array)
{
	size_t used = strlen(signature);
	bool integer = type[0] == 'u' || type[0] == 's';

	snprintf(signature + used, size - used, "%s%s%s%s", used > 0 ? "," : "", integer ? "b" : "",
		 integer ? type + 1 : type, array ? "[]" : "");
}

static bool is_type(const char *w)
{
	return w[0] == '.' && strchr("usbf", w[1]) != NULL && isdigit((unsigned char)w[2]);
}

/* parameters reads a list of parameters up to its closing bracket. */
static const char *parameters(const char *p, char *signature, size_t size)
{
	char w[128], type[16] = "";
	bool array = false;

	for (p = word(p, w, sizeof(w)); *w != '\0'; p = word(p, w, sizeof(w))) {
		if (is_type(w))
			snprintf(type, sizeof(type), "%.15s", w + 1);
		if (*w == '[')
			array = true;
		if (*w != ',' && *w != ')')
			continue;
		if (*type != '\0')
			add_type(signature, size, type, array);
		if (*w == ')')
			break;
		*type = '\0';
		array = false;
	}
	return p;
}

static int add_entry(struct ptx_entry **entries, int count, const char **p)
{
	struct ptx_entry *grown = realloc(*entries, (size_t)(count + 1) * sizeof(**entries));
	char w[8];

	if (grown == NULL)
		return -1;
	*entries = grown;
	struct ptx_entry *e = &grown[count];
	memset(e, 0, sizeof(*e));
	*p = word(*p, e->name, sizeof(e->name));
	const char *after = word(*p, w, sizeof(w));
	if (*w == '(')
		*p = parameters(after, e->signature, sizeof(e->signature));
	return count + 1;
}

/* ptx_parse returns the entries of a PTX text and their number, or -1 if the text
 * is not PTX. In *target, it returns the architecture of the text, such as 90 for
 * sm_90. The caller frees *entries. */
int ptx_parse(const char *text, unsigned int *target, struct ptx_entry **entries)
{
	char *copy = without_comments(text), w[128];
	bool versioned = false;
	int count = 0;

	*target = 0;
	*entries = NULL;
	if (copy == NULL)
		return -1;
	const char *p = copy;
	for (p = word(p, w, sizeof(w)); *w != '\0' && count >= 0; p = word(p, w, sizeof(w))) {
		if (strcmp(w, ".version") == 0)
			versioned = true;
		if (strcmp(w, ".target") == 0) {
			p = word(p, w, sizeof(w));
			sscanf(w, "sm_%u", target);
		}
		if (strcmp(w, ".entry") == 0)
			count = add_entry(entries, count, &p);
	}
	free(copy);
	return versioned && *target != 0 ? count : -1;
}
