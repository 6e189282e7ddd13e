/* SPDX-License-Identifier: Apache-2.0 */
/** Aligned tables on stdout: columns are as wide as their widest cell, two blanks apart. */
#ifndef RUNG_TOOL_TABLE_H
#define RUNG_TOOL_TABLE_H

struct tool_table;

/** Create a table. @param columns  'l' or 'r' for each column: the alignment of its cells; must
 * stay valid. @return NULL without memory, which all other functions accept */
struct tool_table *tool_table_new(const char *columns);

/** Append the next cell: row by row, the headings first. Lack of memory is recorded in the table,
 * and tool_table_print() reports it. */
void tool_table_cell(struct tool_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Print and free a table. @return 0, or -1 if memory was exhausted and nothing was printed */
int tool_table_print(struct tool_table *table);

/** Free without printing; NULL is allowed. */
void tool_table_free(struct tool_table *table);

#endif
