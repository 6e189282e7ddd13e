/* SPDX-License-Identifier: Apache-2.0 */
/* Frame, colours and text of SVG pictures. */
#include "output/svg.h"

#define COLORS 8

/* Okabe and Ito's palette, darker on white and lighter on black, so that text in it is readable. */
static const char *const on_light[COLORS] = { "#0072b2", "#d55e00", "#00805e", "#a8528a",
	                                      "#7a5c00", "#2f8fc4", "#8a4a20", "#57606a" };
static const char *const on_dark[COLORS] = { "#56b4e9", "#f0883e", "#3fc79a", "#e09cc4",
	                                     "#e0c050", "#8fd0ff", "#d8a070", "#9aa4ae" };

static void write_colors(FILE *out, const char *const colors[COLORS], const char *ground,
                         const char *ink, const char *muted, const char *grid)
{
	fprintf(out,
	        ".ground{fill:%s}text,.ink{fill:%s}.muted{fill:%s}"
	        ".rule{stroke:%s;fill:none}.grid{stroke:%s;fill:none}",
	        ground, ink, muted, muted, grid);
	for (int i = 0; i < COLORS; i++)
		fprintf(out, ".f%d{fill:%s}.s%d{stroke:%s}", i, colors[i], i, colors[i]);
}

void svg_begin(FILE *out, double width, double height, const char *title)
{
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
	        "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
	        width, height, width, height);
	svg_text(out, title);
	fputs("</title>\n<style>text{font-family:\"DejaVu Sans\",Arial,Helvetica,sans-serif;"
	      "font-size:13px}.title{font-size:18px;font-weight:bold}"
	      ".label{font-size:14px;font-weight:bold}.small{font-size:11px}\n",
	      out);
	write_colors(out, on_light, "#ffffff", "#1b1f24", "#57606a", "#d0d7de");
	fputs("\n@media (prefers-color-scheme:dark){", out);
	write_colors(out, on_dark, "#0d1117", "#e6edf3", "#9aa4ae", "#30363d");
	fputs("}\n</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", out);
}

void svg_end(FILE *out)
{
	fputs("</svg>\n", out);
}

/* The length of the UTF-8 character at `text`; 0: the bytes are not one, such as of a cut text. */
static int character_bytes(const char *text)
{
	const unsigned char first = (unsigned char)*text;
	const int bytes = first < 0x80                    ? 1
	                  : first >= 0xc2 && first < 0xe0 ? 2
	                  : first >= 0xe0 && first < 0xf0 ? 3
	                  : first >= 0xf0 && first < 0xf5 ? 4
	                                                  : 0;

	for (int i = 1; i < bytes; i++) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
	}
	return bytes;
}

void svg_text(FILE *out, const char *text)
{
	for (int bytes; *text; text += bytes) {
		bytes = character_bytes(text);
		if (bytes != 1) { /* XML in UTF-8 allows no other bytes */
			fprintf(out, "%.*s", bytes ? bytes : 1, bytes ? text : "?");
			bytes = bytes ? bytes : 1;
			continue;
		}
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
