/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Signals that end a command. On SIGINT, SIGTERM, SIGHUP and SIGPIPE the files registered here are
 * removed, the progress bar is cleared, and then the process ends by the default action of the
 * signal, so that a shell sees a death by signal. A signal that is ignored when the command starts
 * (nohup, `&` in a script) stays ignored; SIGQUIT keeps its default action. The library installs no
 * handler.
 *
 * A command without other resources ends inside the handler. A command that has more to clean up
 * requests a grace period: the handler then only records the signal, tool_interrupted() and
 * tool_progress_update() request cancellation, and main() ends the process when the command has
 * returned. A second signal, or the end of the grace period, ends the process at once.
 *
 * `stage`, `fetch`, `verify --repair`, the timed part of `bench`, and `generate` while its folder
 * exists request a grace period. Ending any command at once is safe: staging may be killed at any
 * moment, temporary files of other commands have no name where the file system permits, and the
 * rest is removed here or named by tool_interrupt_hint(). `rung bench` reports from a snapshot;
 * threads whose requests do not complete in time are abandoned, and their memory is not freed.
 */
#ifndef RUNG_TOOL_INTERRUPT_H
#define RUNG_TOOL_INTERRUPT_H

#include <stdint.h>

#define TOOL_GRACE_MS 700u /* below the second within which a command has to end */

/** Install the handlers. @param name  of the command, for the message; must stay valid */
void tool_interrupt_init(const char *name);

/**
 * From now on the command cleans up itself, within `ms` of a signal. If the signal has been
 * received already, the time counts from this call.
 */
void tool_interrupt_grace(uint32_t ms);

/** The signal that ends the command; 0: none was received. */
int tool_interrupted(void);

/** The name of that signal, such as "SIGINT". */
const char *tool_interrupt_name(void);

/**
 * Remove `path` if a signal ends the process, until tool_interrupt_forget(). The handler reads
 * `path`: it must stay valid until then.
 * @return 0, or -1 if too many are registered
 */
int tool_interrupt_unlink(const char *path);
void tool_interrupt_forget(const char *path);

/** Print `text` if a signal ends the process while the file `path` exists. Both strings must stay
 * valid. */
void tool_interrupt_hint(const char *path, const char *text);

/**
 * Make signals cancel the writing of a folder instead of ending the process at once, and print how
 * to continue. The hint is printed only if OUT.partial has a journal by then: before that the
 * library removes the folder.
 * @param again  what the same command needs to continue, such as " with --resume", or ""
 */
void tool_interrupt_resumable(const char *name, const char *out_dir, const char *again);

/** Record whether the terminal's line shows a bar, which the handler would have to clear.
 * @return whether it did before */
int tool_interrupt_bar(int drawn);

/** End the process by the signal that was received. The caller has flushed standard output. */
_Noreturn void tool_interrupt_end(void);

#endif
