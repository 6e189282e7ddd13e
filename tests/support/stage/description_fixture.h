/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of descriptions: a dataset.json in the folder of the stage fixture, opened as a preset. */
#ifndef DESCRIPTION_FIXTURE_H
#define DESCRIPTION_FIXTURE_H

#include "stage_fixture.h"

#define EVERYTHING RUNG_PRESET_EVERYTHING

static char file[320];

static inline void begin_description(void)
{
	setup();
	snprintf(file, sizeof(file), "%s/dataset.json", dir);
}

static inline void write_text(const char *text)
{
	cr_assert_eq(support_write_file(file, text, strlen(text)), 0);
}

static inline struct rung_preset *opened(unsigned wanted)
{
	struct rung_preset *preset = NULL;

	cr_assert_eq(rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, wanted, &preset), 0,
	             "%s", rung_last_error());
	return preset;
}

static inline void refused(int status, const char *words)
{
	struct rung_preset *preset = NULL;

	assert_error(rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, EVERYTHING, &preset),
	             status, words);
	cr_assert_null(preset);
}

#endif
