/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that exist completely or not at all. An unnamed file is written and synced, linked under a
 * temporary name, and renamed to its path: a link cannot replace an older file, a rename can.
 * Finally the folder is synced, which makes the new name durable.
 */
#include "output/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "tool.h"

#define DATA_OFFSET 4096 /* bytes of the .npy header, as in staged datasets */

/* @param err  an errno value. @return an exit code */
static int refuse(const struct tool_out *out, int err)
{
	return tool_error(out->name, TOOL_FAILED, "%s cannot be written: %s", out->path,
	                  strerror(err));
}

/* Close the file, remove it if it has its temporary name, and free the paths. */
static void forget(struct tool_out *out)
{
	if (out->file)
		fclose(out->file);
	if (out->named)
		unlink(out->partial);
	tool_interrupt_forget(out->partial); /* before free(): the signal handler reads it */
	free(out->dir);
	free(out->partial);
	*out = (struct tool_out){ 0 };
}

char *tool_out_partial(const char *path, int length)
{
	uint32_t number;
	char *partial;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return NULL;
	return asprintf(&partial, "%.*s.%08x.partial", length, path, (unsigned)number) < 0
	               ? NULL
	               : partial;
}

/* Set the folder of the path and a unique name in it, which a signal removes from now on.
 * @return an errno value, or 0 */
static int make_paths(struct tool_out *out)
{
	const char *slash = strrchr(out->path, '/');
	const int dir_length = slash ? (int)(slash - out->path + 1) : 2;

	if (asprintf(&out->dir, "%.*s", dir_length, slash ? out->path : "./") < 0)
		out->dir = NULL;
	out->partial = tool_out_partial(out->path, (int)strlen(out->path));
	if (!out->dir || !out->partial || tool_interrupt_unlink(out->partial) < 0)
		return ENOMEM;
	/* an unnamed file can be opened even if the name is too long; then the commit would fail */
	return strlen(strrchr(out->partial, '/') ? strrchr(out->partial, '/') + 1 : out->partial) >
	                       NAME_MAX
	               ? ENAMETOOLONG
	               : 0;
}

/* @return an errno value, or 0 */
static int open_file(struct tool_out *out)
{
	const size_t length = strlen(out->path);
	struct stat found;
	int fd, err = 0;

	if (length == 0 || out->path[length - 1] == '/' ||
	    (stat(out->path, &found) == 0 && S_ISDIR(found.st_mode)))
		return EISDIR;
	/* /dev/stdout, a pipe or a device must not be replaced by a file of that name */
	if (stat(out->path, &found) == 0 && !S_ISREG(found.st_mode)) {
		fd = open(out->path, O_WRONLY | O_CLOEXEC);
	} else if ((err = make_paths(out)) != 0) {
		return err;
	} else {
		fd = open(out->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
		/* EOPNOTSUPP: the file system has no unnamed files; EISDIR: the kernel does not
		 * support O_TMPFILE */
		if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
			fd = open(out->partial, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
			out->named = fd >= 0;
		}
	}
	if (fd < 0)
		return errno;
	out->file = fdopen(fd, "w");
	if (out->file)
		return 0;
	err = errno;
	close(fd);
	return err;
}

int tool_out_open(const char *name, const char *path, struct tool_out *out)
{
	int err, code;

	*out = (struct tool_out){ .name = name, .path = path };
	if (!path)
		return TOOL_DONE;
	err = open_file(out);
	if (err == 0)
		return TOOL_DONE;
	code = err == EISDIR
	               ? tool_error(name, TOOL_FAILED,
	                            "'%s' cannot be the name of a file; give the path of a file",
	                            path)
	               : refuse(out, err);
	forget(out);
	return code;
}

/* A .npy header of format version 1.0, padded with spaces up to the data, as NumPy pads it. */
static void make_header(char head[DATA_OFFSET], enum rung_dtype dtype, uint64_t count)
{
#define DESCR(code, name, bytes, descr) [code] = descr,
	static const char *const descrs[] = { RUNG_DTYPE_LIST(DESCR) };
#undef DESCR
	const unsigned length = DATA_OFFSET - 10;
	char text[128];

	snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }",
	         descrs[dtype], (unsigned long long)count);
	memset(head, ' ', DATA_OFFSET);
	memcpy(head, "\x93NUMPY\x01\x00", 8);
	head[8] = (char)(length & 0xff);
	head[9] = (char)(length >> 8);
	memcpy(head + 10, text, strlen(text));
	head[DATA_OFFSET - 1] = '\n';
}

int tool_out_npy(struct tool_out *out, enum rung_dtype dtype, uint64_t count, const void *data)
{
	char head[DATA_OFFSET];

	if (!out->file)
		return TOOL_DONE;
	make_header(head, dtype, count);
	errno = EIO; /* in case stdio fails without setting errno */
	if (fwrite(head, sizeof(head), 1, out->file) != 1 ||
	    fwrite(data, rung_dtype_bytes(dtype), count, out->file) != count)
		return refuse(out, errno);
	return TOOL_DONE;
}

/* Link the open file through its descriptor in /proc, because linkat() with AT_EMPTY_PATH needs a
 * privilege; then rename it. @return an errno value, or 0 */
static int set_name(struct tool_out *out)
{
	char fd_path[40];

	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", fileno(out->file));
	if (!out->named && linkat(AT_FDCWD, fd_path, AT_FDCWD, out->partial, AT_SYMLINK_FOLLOW) < 0)
		return errno;
	out->named = 1; /* forget() removes it if the rename fails */
	if (rename(out->partial, out->path) < 0)
		return errno;
	out->named = 0;
	return 0;
}

/* Some file systems cannot sync a folder, which is not a failure. @return an errno value, or 0 */
static int sync_folder(const struct tool_out *out)
{
	const int fd = open(out->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int err = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL) ? 0 : errno;

	if (fd >= 0)
		close(fd);
	return err;
}

int tool_out_commit(struct tool_out *out)
{
	int err = 0, code;

	if (!out->file)
		return TOOL_DONE;
	errno = EIO; /* as in tool_out_npy() */
	/* ferror(): the charts do not check each of their writes */
	if (fflush(out->file) != 0 || ferror(out->file) ||
	    (out->dir && fsync(fileno(out->file)) != 0))
		err = errno;
	if (err == 0 && out->dir)
		err = set_name(out);
	if (err == 0 && out->dir)
		err = sync_folder(out);
	code = err ? refuse(out, err) : TOOL_DONE;
	forget(out);
	return code;
}

void tool_out_abandon(struct tool_out *out)
{
	forget(out);
}
