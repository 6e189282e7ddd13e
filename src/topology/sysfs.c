/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading small files of /sys and /proc: bounded, and with the file and the value in every message.
 *
 * Every read function builds its path in sys->path, so that messages can name it, and reads into
 * sys->text, which the next read overwrites. Everything that outlives a read is copied to the
 * arena.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topology/sysfs.h"

#define SHOWN_BYTES 60 /* longest part of a value in messages, because invalid values can be long */

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "topology: out of memory");
}

/* Resolve the links of the root, because rung__sys_location() compares resolved paths with it. */
int rung__sys_begin(struct rung__sys *sys, const char *root, struct rung__arena *arena)
{
	struct stat stat_of;

	sys->root = root;
	sys->arena = arena;
	if (!realpath(*root ? root : "/", sys->home))
		return rung__fail_errno(errno, "%s", *root ? root : "/");
	if (stat(sys->home, &stat_of) == 0 && !S_ISDIR(stat_of.st_mode))
		return rung__fail(
			RUNG_E_NOENT,
			"%s: not a folder; give one that contains sys/ and proc/ of a machine",
			root);
	if (strcmp(sys->home, "/") == 0)
		/* so that "/sys/" can be appended to "/" as to any other root */
		sys->home[0] = 0;
	return 0;
}

/* Build sys->path from root and format; a path that does not fit is an error, never cut. */
static int make_path(struct rung__sys *sys, const char *format, va_list args)
{
	int root = snprintf(sys->path, sizeof(sys->path), "%s/", sys->root);
	int rest = root < 0 || (size_t)root >= sizeof(sys->path)
	                   ? -1
	                   : vsnprintf(sys->path + root, sizeof(sys->path) - (size_t)root, format,
	                               args);

	if (rest < 0 || (size_t)rest >= sizeof(sys->path) - (size_t)root)
		return rung__fail(
			RUNG_E_INVAL,
			"topology: a path below '%.80s' is too long: it has %zu bytes or more",
			sys->root, sizeof(sys->path));
	return 0;
}

/* a macro, because va_start() works only in the variadic function */
#define MAKE_PATH(rc, sys, format)                                                                 \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		rc = make_path(sys, format, args);                                                 \
		va_end(args);                                                                      \
	} while (0)

/*
 * Whether errno means that the kernel does not report the value: the file does not exist, this
 * process is not allowed to read it, or the driver has no answer (the speed of a link gives EINVAL
 * on some devices; a device that is gone or asleep gives EIO or ENODEV for everything). All other
 * errors fail the call, such as loops of links and a lack of descriptors.
 */
static bool not_reported(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case EPERM:
	case EINVAL:
	case EIO:
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
	case ENODATA:
		return true;
	default:
		return false;
	}
}

/* @return 0: the file is absent; or the status of a failure, whose message has the path */
static int absent_or_fail(const struct rung__sys *sys, int err)
{
	return not_reported(err) ? 0 : rung__fail_errno(err, "%s", sys->path);
}

/* Copy up to `capacity` - 1 bytes; bytes that a terminal could interpret become '?'. */
static void printable(char *to, size_t capacity, const char *from, size_t length)
{
	size_t i = 0;

	for (; i < length && i + 1 < capacity; i++)
		to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
	to[i] = 0;
}

int rung__sys_bad(const struct rung__sys *sys, const char *value, const char *what)
{
	char shown[SHOWN_BYTES + 1];
	size_t length = strlen(value);

	printable(shown, sizeof(shown), value, length);
	return rung__fail(RUNG_E_FORMAT, "%s: '%s%s' is not %s", sys->path, shown,
	                  length > SHOWN_BYTES ? "..." : "", what);
}

/*
 * Read the whole file. sysfs files report a size of one page, and proc files 0, so fstat() does not
 * give the length.
 * @return 1, 0 when the kernel has no value, or a failure
 */
static int read_descriptor(struct rung__sys *sys, int fd)
{
	size_t length = 0;
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return absent_or_fail(sys, errno);
	/* checked after opening, so that the file cannot change in between */
	if (!S_ISREG(stat.st_mode))
		return rung__fail(RUNG_E_FORMAT, "%s: not a regular file", sys->path);
	for (;;) {
		ssize_t got = read(fd, sys->text + length, sizeof(sys->text) - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return absent_or_fail(sys, errno);
		if (got == 0)
			break;
		length += (size_t)got;
		/* one byte must remain for the end of the string */
		if (length == sizeof(sys->text))
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: too long: it has %u bytes or more, but rung reads "
			                  "only shorter files",
			                  sys->path, RUNG__SYS_TEXT_BYTES);
	}
	sys->text[length] = 0;
	/* the functions below handle the text as a string */
	if (strlen(sys->text) != length)
		return rung__sys_bad(sys, sys->text, "text: it is followed by a null byte");
	if (length > 0 && sys->text[length - 1] == '\n')
		sys->text[length - 1] = 0;
	return 1;
}

static int read_path(struct rung__sys *sys)
{
	/* without O_NONBLOCK, opening a FIFO would wait for a writer */
	int rc, fd = open(sys->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return absent_or_fail(sys, errno);
	rc = read_descriptor(sys, fd);
	close(fd);
	return rc;
}

int rung__sys_read(struct rung__sys *sys, const char *format, ...)
{
	int rc;

	MAKE_PATH(rc, sys, format);
	return rc < 0 ? rc : read_path(sys);
}

int rung__sys_number(struct rung__sys *sys, unsigned base, uint64_t most, uint64_t *number_out,
                     const char *format, ...)
{
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc == 0)
		rc = read_path(sys);
	if (rc > 0 && !rung__number_of_text(sys->text, base, most, "", number_out)) {
		char what[64];

		snprintf(what, sizeof(what),
		         base == 16 ? "a hexadecimal number up to %" PRIx64
		                    : "a number up to %" PRIu64,
		         most);
		return rung__sys_bad(sys, sys->text, what);
	}
	return rc;
}

/* Copy text without leading and trailing blanks to the arena; *text_out is NULL if it is empty.
 * @return 1 or RUNG_E_NOMEM */
static int keep_text(struct rung__sys *sys, const char *from, size_t length, const char **text_out)
{
	char *text;

	while (length > 0 && (*from == ' ' || *from == '\t'))
		from++, length--;
	while (length > 0 && (from[length - 1] == ' ' || from[length - 1] == '\t'))
		length--;
	if (length == 0) {
		*text_out = NULL;
		return 1;
	}
	text = rung__arena_alloc(sys->arena, length + 1, 1);
	if (!text)
		return no_memory();
	printable(text, length + 1, from, length);
	*text_out = text;
	return 1;
}

int rung__sys_text(struct rung__sys *sys, const char **text_out, const char *format, ...)
{
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc == 0)
		rc = read_path(sys);
	return rc > 0 ? keep_text(sys, sys->text, strlen(sys->text), text_out) : rc;
}

/* Parse a list of the kernel into the arena, in two passes: the first counts and validates. */
static int keep_ids(struct rung__sys *sys, const char *text, uint32_t limit,
                    struct rung_id_list *list_out)
{
	uint32_t count, *ids;

	if (!rung__ids_of_text(text, limit, NULL, &count)) {
		char what[80];

		snprintf(what, sizeof(what),
		         "a list of numbers below %" PRIu32 ", ascending, such as 0-3,8", limit);
		return rung__sys_bad(sys, text, what);
	}
	ids = rung__arena_alloc(sys->arena, count, sizeof(*ids));
	if (!ids)
		return no_memory();
	rung__ids_of_text(text, limit, ids, &count);
	*list_out = (struct rung_id_list){ ids, count };
	return 1;
}

int rung__sys_ids(struct rung__sys *sys, uint32_t limit, struct rung_id_list *list_out,
                  const char *format, ...)
{
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc == 0)
		rc = read_path(sys);
	return rc > 0 ? keep_ids(sys, sys->text, limit, list_out) : rc;
}

int rung__sys_link(struct rung__sys *sys, const char **name_out, const char *format, ...)
{
	char target[PATH_MAX];
	const char *slash;
	ssize_t length;
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc < 0)
		return rc;
	length = readlink(sys->path, target, sizeof(target) - 1);
	/* readlink() returns EINVAL for a file that is not a link, so here it does not mean an
	 * absent value */
	if (length < 0 && errno == EINVAL)
		return rung__fail(RUNG_E_FORMAT, "%s: not a link", sys->path);
	if (length < 0)
		return absent_or_fail(sys, errno);
	target[length] = 0;
	/* the target is relative and can lead anywhere; only its last part, a name, is used */
	slash = strrchr(target, '/');
	return keep_text(sys, slash ? slash + 1 : target, strlen(slash ? slash + 1 : target),
	                 name_out);
}

int rung__sys_location(struct rung__sys *sys, const char **place_out, const char *format, ...)
{
	char real[PATH_MAX];
	size_t home = strlen(sys->home);
	char *place;
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc < 0)
		return rc;
	if (!realpath(sys->path, real))
		return absent_or_fail(sys, errno);
	/* a recorded machine must not describe the running one through a link */
	if (strncmp(real, sys->home, home) != 0 || strncmp(real + home, "/sys/", 5) != 0)
		return rung__fail(RUNG_E_FORMAT, "%s: resolves to '%.200s', which is not in %s/sys",
		                  sys->path, real, sys->home);
	/* without the leading slash, which makes room for the terminating NUL */
	place = rung__arena_alloc(sys->arena, strlen(real + home), 1);
	if (!place)
		return no_memory();
	memcpy(place, real + home + 1, strlen(real + home));
	*place_out = place;
	return 1;
}

/* ---- folders ---- */

/* Which entries of a folder are wanted: by a function, or PREFIX<number>SUFFIX below a limit. */
struct pattern {
	bool (*wanted)(const char *name); /* NULL: by prefix, suffix and limit */
	const char *prefix, *suffix;
	uint32_t limit;
};

/* The number in a name. Leading zeros are refused, because the path that is built from the number
 * would be another one. */
static bool number_of(const struct pattern *pattern, const char *name, uint32_t *number_out)
{
	size_t prefix = strlen(pattern->prefix);
	uint64_t number;

	if (strncmp(name, pattern->prefix, prefix) != 0 ||
	    (name[prefix] == '0' && name[prefix + 1] >= '0' && name[prefix + 1] <= '9') ||
	    !rung__number_of_text(name + prefix, 10, (uint64_t)pattern->limit - 1, pattern->suffix,
	                          &number))
		return false;
	*number_out = (uint32_t)number;
	return true;
}

static bool matches(const struct pattern *pattern, const char *name)
{
	uint32_t number;

	return pattern->wanted ? pattern->wanted(name) : number_of(pattern, name, &number);
}

/* nvme2 before nvme10; also the order of the numbers of rung__sys_numbered() */
static int natural_order(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

/* List the matching names in two passes over the folder. An entry that appears between the passes
 * is left out, because the array is full, and one that disappears shortens the list. */
static int keep_names(struct rung__sys *sys, DIR *dir, const struct pattern *pattern,
                      const char *const **names_out, size_t *count_out)
{
	size_t entries = 0, count = 0, kept = 0;
	const struct dirent *entry;
	const char **names;

	while ((entry = readdir(dir)) != NULL) {
		if (++entries > RUNG__SYS_ENTRIES_MAX)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: too many entries; at most %u are supported",
			                  sys->path, RUNG__SYS_ENTRIES_MAX);
		count += matches(pattern, entry->d_name);
	}
	names = rung__arena_alloc(sys->arena, count, sizeof(*names));
	if (!names)
		return no_memory();
	rewinddir(dir);
	while (kept < count && (entry = readdir(dir)) != NULL) {
		char *name;

		if (!matches(pattern, entry->d_name))
			continue;
		name = rung__arena_alloc(sys->arena, strlen(entry->d_name) + 1, 1);
		if (!name)
			return no_memory();
		strcpy(name, entry->d_name);
		names[kept++] = name;
	}
	qsort(names, kept, sizeof(*names), natural_order);
	*names_out = names;
	*count_out = kept;
	return 1;
}

/* List the folder in sys->path. @return 1, 0 if the folder is absent, or a failure */
static int names_in(struct rung__sys *sys, const struct pattern *pattern,
                    const char *const **names_out, size_t *count_out)
{
	DIR *dir = opendir(sys->path);
	int rc;

	*names_out = NULL;
	*count_out = 0;
	if (!dir)
		return absent_or_fail(sys, errno);
	rc = keep_names(sys, dir, pattern, names_out, count_out);
	closedir(dir);
	return rc;
}

int rung__sys_names(struct rung__sys *sys, bool (*wanted)(const char *name),
                    const char *const **names_out, size_t *count_out, const char *format, ...)
{
	const struct pattern pattern = { .wanted = wanted };
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc == 0)
		rc = names_in(sys, &pattern, names_out, count_out);
	return rc < 0 ? rc : 0;
}

int rung__sys_numbered(struct rung__sys *sys, const char *prefix, const char *suffix,
                       uint32_t limit, struct rung_id_list *list_out, const char *format, ...)
{
	const struct pattern pattern = { NULL, prefix, suffix, limit };
	const char *const *names;
	uint32_t *ids;
	size_t count;
	int rc;

	MAKE_PATH(rc, sys, format);
	if (rc == 0)
		rc = names_in(sys, &pattern, &names, &count);
	if (rc <= 0)
		return rc;
	ids = rung__arena_alloc(sys->arena, count, sizeof(*ids));
	if (!ids)
		return no_memory();
	/* natural order is by number here: prefix and suffix are the same */
	for (size_t i = 0; i < count; i++)
		number_of(&pattern, names[i], &ids[i]);
	*list_out = (struct rung_id_list){ ids, (uint32_t)count };
	return 0;
}

/* ---- files of several lines ---- */

int rung__sys_field(struct rung__sys *sys, const char *key, const char **value_out)
{
	size_t length = strlen(key);

	/* a key in the middle of a word does not count; in a node's meminfo the keys follow a
	 * number */
	for (const char *at = strstr(sys->text, key); at; at = strstr(at + 1, key)) {
		if (at == sys->text || at[-1] == '\n' || at[-1] == ' ')
			return keep_text(sys, at + length, strcspn(at + length, "\n"), value_out);
	}
	return 0;
}

int rung__sys_field_ids(struct rung__sys *sys, const char *key, uint32_t limit,
                        struct rung_id_list *list_out)
{
	const char *value;
	int rc = rung__sys_field(sys, key, &value);

	return rc > 0 ? keep_ids(sys, value ? value : "", limit, list_out) : rc;
}
