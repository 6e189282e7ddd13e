/* SPDX-License-Identifier: Apache-2.0 */
/* Text in SVG. */
#include "output/svg.h"

void svg_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		default:
			/* XML 1.0 does not allow control characters, not even escaped */
			fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
		}
	}
}

void svg_text_at(FILE *out, double x, double y, const char *attributes, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *attributes ? " " : "", attributes);
	svg_text(out, text);
	fputs("</text>\n", out);
}
