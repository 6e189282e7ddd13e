/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Intrusive list: entries are linked through one of their members, so adding one allocates nothing
 * and cannot fail. Entries are added at both ends and removed at the front, or anywhere by a search
 * from the front. It is a ring of single links with a pointer to the last one, which gives both
 * ends with one pointer. Private to rung.
 *
 * Threads: no locking; the caller guards each list.
 */
#ifndef RUNG_QUEUE_H
#define RUNG_QUEUE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/** Member of an entry; all zero while it is not in a list. An entry with several links can be in
 * several lists. */
struct rung__link {
	/* the next link, or the first one if this is the last; never NULL */
	struct rung__link *next;
};

/** All zero: empty. */
struct rung__queue {
	struct rung__link *last;
};

/** The entry that a link is a member of; NULL for NULL. */
#define RUNG__ENTRY(link, type, member) ((type *)rung__entry((link), offsetof(type, member)))

/** Walk over the entries; none may be removed during the walk. */
#define RUNG__QUEUE_EACH(entry, queue, type, member)                                               \
	for (type *entry = RUNG__ENTRY(rung__queue_first(queue), type, member); entry;             \
	     entry = RUNG__ENTRY(rung__queue_after(queue, &entry->member), type, member))

static inline void *rung__entry(struct rung__link *link, size_t offset)
{
	return link ? (char *)link - offset : NULL;
}

static inline bool rung__is_linked(const struct rung__link *link)
{
	return link->next != NULL;
}

static inline bool rung__queue_is_empty(const struct rung__queue *queue)
{
	return !queue->last;
}

static inline struct rung__link *rung__queue_first(const struct rung__queue *queue)
{
	return queue->last ? queue->last->next : NULL;
}

/** The entry after a link; NULL after the last one. */
static inline struct rung__link *rung__queue_after(const struct rung__queue *queue,
                                                   const struct rung__link *link)
{
	assert(rung__is_linked(link));
	return link == queue->last ? NULL : link->next;
}

/** Add at the front. */
static inline void rung__queue_push_first(struct rung__queue *queue, struct rung__link *link)
{
	assert(!rung__is_linked(link));
	if (!queue->last)
		queue->last = link->next = link; /* a ring of one; the lines below keep it */
	link->next = queue->last->next;
	queue->last->next = link;
}

/** Append: add the link at the front, then move `last` to it. In a ring that makes it the end of
 * the list. */
static inline void rung__queue_push(struct rung__queue *queue, struct rung__link *link)
{
	rung__queue_push_first(queue, link);
	queue->last = link;
}

/** Remove the link after `before`. To remove the first link, pass the last one as `before`; in a
 * list of one, that is the link itself. */
static inline void rung__queue_cut(struct rung__queue *queue, struct rung__link *before)
{
	struct rung__link *link = before->next;

	assert(queue->last && rung__is_linked(link));
	before->next = link->next;
	if (link == queue->last)
		queue->last = link == before ? NULL : before;
	link->next = NULL;
}

/** Remove the first link. @return NULL if the list is empty */
static inline struct rung__link *rung__queue_pop(struct rung__queue *queue)
{
	struct rung__link *first = rung__queue_first(queue);

	if (first)
		rung__queue_cut(queue, queue->last);
	return first;
}

/** Remove an entry that is in the list. Searches it from the front: for short lists. */
static inline void rung__queue_remove(struct rung__queue *queue, const struct rung__link *link)
{
	struct rung__link *before = queue->last;

	assert(before);
	for (; before->next != link; before = before->next)
		assert(before->next != queue->last); /* it is in another list, or in none */
	rung__queue_cut(queue, before);
}

/** Append all of `from`, which is empty afterwards. */
static inline void rung__queue_join(struct rung__queue *queue, struct rung__queue *from)
{
	struct rung__link *first = rung__queue_first(from);

	if (queue->last && first) {
		from->last->next = queue->last->next;
		queue->last->next = first;
	}
	if (first)
		queue->last = from->last;
	from->last = NULL;
}

#endif
