/* SPDX-License-Identifier: Apache-2.0 */
/** A function for rung_interrupt_set() that counts its calls, and cancels from one of them on. */
#ifndef SUPPORT_INTERRUPT_H
#define SUPPORT_INTERRUPT_H

#include <stdint.h>

#include "rung/status.h"

static uint64_t interrupt_calls, interrupt_at; /* 0: never */

static inline int interrupt_canceled(void *ctx, const char *step, unsigned long long done,
                                     unsigned long long total)
{
	(void)ctx;
	(void)step;
	(void)done;
	(void)total;
	return ++interrupt_calls >= interrupt_at && interrupt_at > 0;
}

/* Cancel at the call with this number. */
static inline void interrupt_begin(uint64_t at)
{
	interrupt_calls = 0;
	interrupt_at = at;
	rung_interrupt_set(interrupt_canceled, NULL);
}

#endif
