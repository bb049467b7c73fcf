/* Lists of things that know their places in them (their nodes), and one that is looked through bit by bit: what the program keeps may become any number, and
   each of its operators may ask. */
#ifndef ACCEL_HOOKS_SHARD_LIST_H
#define ACCEL_HOOKS_SHARD_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "../../shim/shim.h"

struct list_node {
    struct list_node *next, **link; /* link: where the list has this node */
};

/* The struct that has this node as its member; NULL: none. */
#define LIST_OWNER(node, type, member) ((type *)((node) ? (char *)(node)-offsetof(type, member) : NULL))

#define LIST_EACH(type, name, first, member)                                                                                               \
    for (type *name = LIST_OWNER(first, type, member); name; name = LIST_OWNER(name->member.next, type, member))

/* The same, where the body may take the one that it is at out of the list. */
#define LIST_EACH_LEAVING(type, name, first, member)                                                                                       \
    for (type *name = LIST_OWNER(first, type, member), *next_; name && (next_ = LIST_OWNER(name->member.next, type, member), true);        \
         name = next_)

static inline void list_add(struct list_node **first, struct list_node *node) {
    *node = (struct list_node){*first, first};
    if (*first)
        (*first)->link = &node->next;
    *first = node;
}

static inline void list_remove(struct list_node *node) {
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
}

static inline size_t list_length(const struct list_node *first) {
    size_t length = 0;
    for (; first; first = first->next)
        length++;
    return length;
}

/* Lists in a table: of the things with one key. */
static inline struct list_node *list_of(const struct pairs *pairs, const void *key) {
    struct list_node **first = pairs_get(pairs, key);
    return first ? *first : NULL;
}

static inline void list_put(struct pairs *pairs, const void *key, struct list_node *node) {
    struct list_node **first = pairs_get(pairs, key);
    if (!first)
        pairs_put(pairs, (void *)key, first = calloc(1, sizeof *first));
    list_add(first, node);
}

static inline void list_take_out(struct pairs *pairs, const void *key, struct list_node *node) {
    list_remove(node);
    if (!list_of(pairs, key))
        free(pairs_put(pairs, (void *)key, NULL));
}

/* Any number of things, of which each call looks at a few. */
struct list_kept {
    struct list_node *first; /* the youngest */
    struct list_node *turn;  /* whose turn it is of the others */
    size_t count, added;     /* in all; since they were looked at last */
};

static inline void list_kept_add(struct list_kept *kept, struct list_node *node) {
    list_add(&kept->first, node);
    kept->count++;
    kept->added++;
}

static inline void list_kept_remove(struct list_kept *kept, struct list_node *node) {
    if (kept->turn == node)
        kept->turn = node->next;
    list_remove(node);
    kept->count--;
}

/* What the program is done with goes soon after it has come, or with all the others: the youngest are shown, and of the others in turn more than have come, so
   that they do not grow more, and so many that each comes within some hundred calls. */
static inline void list_kept_visit(struct list_kept *kept, void (*visit)(struct list_node *node, bool is_young)) {
    enum { YOUNG = 16, OTHERS = 4, CALLS = 256 };
    struct list_node *next, *node = kept->first;
    size_t others = OTHERS + 2 * kept->added + kept->count / CALLS;
    kept->added = 0;
    for (int i = 0; i < YOUNG && node; i++, node = next) {
        next = node->next;
        visit(node, true);
    }
    if (!node)
        return;
    for (size_t i = 0; i < others; i++) {
        node = kept->turn ? kept->turn : kept->first;
        if (!node)
            return;
        kept->turn = node->next;
        visit(node, false);
    }
}

#endif
