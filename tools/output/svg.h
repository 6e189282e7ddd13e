/* SPDX-License-Identifier: Apache-2.0 */
/** Common parts of SVG pictures. */
#ifndef RUNG_TOOL_SVG_H
#define RUNG_TOOL_SVG_H

#include <stdio.h>

/** Write text between tags: markup characters are escaped, control characters become spaces. */
void svg_text(FILE *out, const char *text);

/** Write a text element. @param attributes  further attributes, such as "class=\"title\"", or "" */
void svg_text_at(FILE *out, double x, double y, const char *attributes, const char *text);

#endif
