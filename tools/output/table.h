/* SPDX-License-Identifier: Apache-2.0 */
/** Aligned tables on stdout: columns are as wide as their widest cell, two blanks apart. */
#ifndef RUNG_TOOL_TABLE_H
#define RUNG_TOOL_TABLE_H

struct tool_table;

/** @param columns  'l' or 'r' for each column: where its cells stand */
struct tool_table *tool_table_new(const char *columns);

/** The next cell: row by row, the headings first. Lack of memory is recorded; a NULL table is one
 * that could not be created. */
void tool_table_cell(struct tool_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Print and free. @return 0, or -1 when memory lacked and nothing was printed */
int tool_table_print(struct tool_table *table);

/** Free without printing; NULL is allowed. */
void tool_table_free(struct tool_table *table);

#endif
