/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target without libFuzzer: replay FOLDER... feeds every file of the folders to it. Files named
 * ok-* must be accepted and files named bad-* refused; others may be either. Accepted files are
 * then cut and changed in many places, which may have any result but a crash. Works with any
 * compiler. Exits with 0 or 1.
 */
#include <dirent.h>
#include <string.h>

#include "dataset.h"
#include "fuzz.h"
#include "rung/rung.h"

/* A copy of exactly `bytes`, so that a sanitizer detects reads past the end. */
static int try_copy(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);
	int status;

	FUZZ_CHECK(copy);
	memcpy(copy, data, bytes);
	status = fuzz_try(copy, bytes);
	free(copy);
	return status;
}

static void spoil(uint8_t *data, size_t bytes)
{
	static const uint8_t changes[] = { 0x01, 0x80, 0xff };
	const size_t step = bytes / fuzz_places_max + 1;

	for (size_t at = 0; at < bytes; at += step) {
		try_copy(data, at);
		for (size_t c = 0; c < sizeof(changes); c++) {
			data[at] ^= changes[c];
			try_copy(data, bytes);
			data[at] ^= changes[c];
		}
	}
}

static int replay_file(const char *folder, const char *name)
{
	char path[4096];
	size_t bytes = 0;
	uint8_t *data;
	int status, wrong;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	data = support_read_file(path, &bytes);
	FUZZ_CHECK(data);
	status = try_copy(data, bytes);
	wrong = (strncmp(name, "ok-", 3) == 0 && status != 0) ||
	        (strncmp(name, "bad-", 4) == 0 && status >= 0);
	if (wrong)
		fprintf(stderr, "%s: status %d: %s\n", path, status,
		        status < 0 ? rung_last_error() : "");
	if (status == 0)
		spoil(data, bytes);
	free(data);
	return wrong;
}

int main(int argc, char **argv)
{
	int files = 0, wrong = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		struct dirent *entry;

		FUZZ_CHECK(dir);
		while ((entry = readdir(dir)) != NULL) {
			if (entry->d_name[0] == '.')
				continue;
			files++;
			wrong += replay_file(argv[i], entry->d_name);
		}
		closedir(dir);
	}
	printf("%d inputs, %d with an unexpected result\n", files, wrong);
	return files == 0 || wrong > 0;
}
