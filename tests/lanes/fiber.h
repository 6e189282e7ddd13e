/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fibers: one stack per lane, with hand-written switching. On x86-64 a switch is a few
 * instructions, because a warp is switched 32 times per shuffle and ucontext makes two system calls
 * per switch. Elsewhere, and with LANES_UCONTEXT defined, ucontext is used.
 */
#ifndef LANES_FIBER_H
#define LANES_FIBER_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__) && !defined(LANES_UCONTEXT)
#define LANES_UCONTEXT 1
#endif
#ifdef LANES_UCONTEXT
#include <ucontext.h>
#else
extern "C" void lanes_switch(void **sp_from, void *sp_to);
/*
 * Saves the registers that a call preserves, switches stacks, and restores. The MXCSR and x87 modes
 * belong to the whole program. `ret` is avoided: the processor predicts its target from earlier
 * calls, always wrongly on another stack.
 */
asm(".text\n"
    ".local lanes_switch\n"
    ".type lanes_switch, @function\n"
    "lanes_switch:\n"
    "	pushq %rbp\n	pushq %rbx\n	pushq %r12\n"
    "	pushq %r13\n	pushq %r14\n	pushq %r15\n"
    "	movq %rsp, (%rdi)\n"
    "	movq %rsi, %rsp\n"
    "	popq %r15\n	popq %r14\n	popq %r13\n"
    "	popq %r12\n	popq %rbx\n	popq %rbp\n"
    "	popq %rcx\n	jmpq *%rcx\n"
    ".size lanes_switch, .-lanes_switch\n");
#endif

namespace lanes
{

const size_t STACK_BYTES = 128 * 1024; /* AddressSanitizer makes frames several times larger */

/*
 * ThreadSanitizer does not know these fibers: their code is compiled without it (../sim/race.h).
 *
 * Fibers never return from `main` and never end, so that for sanitizers every frame is exited as it
 * was entered.
 */
struct fiber {
	void *stack = nullptr;
#ifdef LANES_UCONTEXT
	ucontext_t context, back;
#else
	void *sp = nullptr, *back = nullptr;
#endif

	void make(void (*main)())
	{
		stack = malloc(STACK_BYTES);
		if (!stack)
			abort();
#ifdef LANES_UCONTEXT
		getcontext(&context);
		context.uc_stack.ss_sp = stack;
		context.uc_stack.ss_size = STACK_BYTES;
		context.uc_link = nullptr;
		makecontext(&context, main, 0);
#else
		uintptr_t top = ((uintptr_t)stack + STACK_BYTES) & ~(uintptr_t)15;
		void **slot = (void **)top - 8;
		for (int i = 0; i < 8; i++)
			slot[i] = nullptr;
		/* return address, with the stack as after a call: 8 past a multiple of 16 */
		slot[6] = (void *)main;
		sp = slot;
#endif
	}

	void enter() /* called by the scheduler */
	{
#ifdef LANES_UCONTEXT
		swapcontext(&back, &context);
#else
		lanes_switch(&back, sp);
#endif
	}

	void leave() /* called by the fiber: back to the scheduler */
	{
#ifdef LANES_UCONTEXT
		swapcontext(&context, &back);
#else
		lanes_switch(&sp, back);
#endif
	}
};

} // namespace lanes

#endif
