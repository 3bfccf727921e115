/* cuda_object.c: the list of all objects that have a handle. */
#include "cuda_driver.h"

#include <stdlib.h>

static struct object *objects;

void *object_new(size_t size, enum kind kind, struct object *owner)
{
	struct object *o = calloc(1, size);

	if (o == NULL)
		return NULL;
	o->kind = kind;
	o->owner = owner;
	o->next = objects;
	objects = o;
	return o;
}

static struct object *find(struct object *from, enum kind kind)
{
	while (from != NULL && from->kind != kind)
		from = from->next;
	return from;
}

/* object_first and object_next iterate over the objects of a kind, newest first. */
void *object_first(enum kind kind)
{
	return find(objects, kind);
}

void *object_next(void *object, enum kind kind)
{
	return find(((struct object *)object)->next, kind);
}

/* object_check returns the object of a handle, or NULL if the handle belongs to
 * no object of the kind. Call it before each use of a handle as a pointer. */
void *object_check(void *handle, enum kind kind)
{
	for (struct object *o = objects; o != NULL; o = o->next) {
		if (o == handle)
			return o->kind == kind ? o : NULL;
	}
	return NULL;
}

static struct object *owned_by(struct object *owner)
{
	for (struct object *o = objects; o != NULL; o = o->next) {
		if (o->owner == owner)
			return o;
	}
	return NULL;
}

/* object_free frees the objects that an object owns, and then the object. */
void object_free(struct object *object)
{
	struct object *owned, **at = &objects;

	while ((owned = owned_by(object)) != NULL)
		object_free(owned);
	if (object->release != NULL)
		object->release(object);
	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	free(object);
}
