/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with columns as wide as their cells. All cells are kept until the table is printed,
 * because the widths are known only then. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/table.h"

struct tool_table {
	const char *columns; /* [column_count] 'l' or 'r'; the caller's text */
	size_t column_count;
	char **cells; /* [cell_count] row by row, allocated */
	size_t cell_count, capacity;
	int incomplete; /* nonzero: a cell was lost for lack of memory; nothing is printed */
};

struct tool_table *tool_table_new(const char *columns)
{
	struct tool_table *table = calloc(1, sizeof(*table));

	if (table) {
		table->columns = columns;
		table->column_count = strlen(columns);
	}
	return table;
}

/* Doubles the room, so that appending stays linear. @return 0, or -1 without memory */
static int grow(struct tool_table *table)
{
	size_t capacity = table->capacity ? 2 * table->capacity : 64;
	char **cells = reallocarray(table->cells, capacity, sizeof(*cells));

	if (!cells)
		return -1;
	table->cells = cells;
	table->capacity = capacity;
	return 0;
}

void tool_table_cell(struct tool_table *table, const char *format, ...)
{
	char *text;
	va_list args;
	int length;

	if (!table || table->incomplete)
		return;
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0) {
		table->incomplete = 1;
	} else if (table->cell_count == table->capacity && grow(table) < 0) {
		free(text);
		table->incomplete = 1;
	} else {
		table->cells[table->cell_count++] = text;
	}
}

/* Width of a column: bytes of its longest cell. */
static size_t width_of(const struct tool_table *table, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < table->cell_count; i += table->column_count) {
		size_t length = strlen(table->cells[i]);

		width = length > width ? length : width;
	}
	return width;
}

/* A line must not end in blanks: the padding of a left-aligned column is written only when another
 * cell follows. */
static void print_rows(const struct tool_table *table, const size_t *widths)
{
	size_t owed = 0; /* blanks to write before the next text */

	for (size_t i = 0; i < table->cell_count; i++) {
		size_t column = i % table->column_count, length = strlen(table->cells[i]),
		       pad = widths[column] - length;

		if (table->columns[column] == 'r')
			owed += pad;
		if (length > 0) {
			printf("%*s%s", (int)owed, "", table->cells[i]);
			owed = 0;
		}
		owed += table->columns[column] == 'r' ? 2 : pad + 2;
		if (column + 1 == table->column_count) {
			putchar('\n');
			owed = 0;
		}
	}
}

void tool_table_free(struct tool_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

int tool_table_print(struct tool_table *table)
{
	size_t *widths = table ? calloc(table->column_count, sizeof(*widths)) : NULL;
	int rc = -1;

	if (widths && !table->incomplete) {
		for (size_t column = 0; column < table->column_count; column++)
			widths[column] = width_of(table, column);
		print_rows(table, widths);
		rc = 0;
	}
	free(widths);
	tool_table_free(table);
	return rc;
}
