/* SPDX-License-Identifier: Apache-2.0 */
/** Common parts of SVG pictures. */
#ifndef RUNG_TOOL_SVG_H
#define RUNG_TOOL_SVG_H

#include <stdio.h>

/** Text between tags: what XML takes for its own, or knows not at all, is replaced. */
void svg_text(FILE *out, const char *text);

/** A text element. @param attributes  further ones; "" for none */
void svg_text_at(FILE *out, double x, double y, const char *attributes, const char *text);

#endif
