/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the fuzz targets, and the checks of every failure. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "fuzz.h"
#include "rung/rung.h"

#define SLOTS 4u

static char folder[256];

static void remove_folder(void)
{
	support_remove(folder);
}

const char *fuzz_folder(void)
{
	if (folder[0])
		return folder;
	support_prefer_memory();
	FUZZ_CHECK(support_tempdir(folder, sizeof(folder)) == 0 && atexit(remove_folder) == 0);
	return folder;
}

const char *fuzz_file(unsigned slot, const char *name, const void *data, size_t bytes)
{
	static char paths[SLOTS][320];
	int fd;

	FUZZ_CHECK(slot < SLOTS);
	snprintf(paths[slot], sizeof(paths[slot]), "%s/%s", fuzz_folder(), name);
	fd = open(paths[slot], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
	return paths[slot];
}

int fuzz_try(const uint8_t *data, size_t bytes)
{
	int status = bytes <= fuzz_bytes_max ? fuzz_one(data, bytes) : FUZZ_UNTRIED;

	if (status < 0) {
		const char *text = rung_last_error();

		FUZZ_CHECK(text && text[0]);
		for (; *text; text++)
			FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
	}
	return status;
}
