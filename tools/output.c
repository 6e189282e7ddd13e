/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .npy that is there whole or not at all. It is written to a file without a name, which gets one when it is synced: a process may be
 * killed at any moment and leaves nothing. File systems that have no such files take one under a temporary name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define DATA_OFFSET 4096   /* as in staged datasets: data are aligned for direct reads */
#define PIECE_BYTES (UINT64_C(64) << 20)

struct tool_output {
	const char *name;        /* of the command, for messages */
	const char *path;
	char *dir;
	char *partial_path;      /* in the same folder */
	int fd;
	int named;               /* partial_path is there, and ours */
};

static int fail(const struct tool_output *output, const char *what)
{
	return tool_error(output->name, TOOL_FAILED, "%s: %s: %s", output->path, what, strerror(errno));
}

/* The folder of a path, and a name in it that nobody else has. */
static int make_paths(struct tool_output *output)
{
	const char *slash = strrchr(output->path, '/');
	const int dir_length = slash ? (int)(slash - output->path + 1) : 2;

	if (asprintf(&output->dir, "%.*s", dir_length, slash ? output->path : "./") < 0)
		output->dir = NULL;
	if (asprintf(&output->partial_path, "%s.%ld.partial", output->path, (long)getpid()) < 0)
		output->partial_path = NULL;
	return output->dir && output->partial_path ? 0 : tool_error(output->name, TOOL_FAILED, "no memory for the name of the output");
}

static int open_file(struct tool_output *output)
{
	const size_t length = strlen(output->path);
	struct stat st;

	if (length == 0 || output->path[length - 1] == '/')
		return tool_error(output->name, TOOL_FAILED, "'%s' is no name of a file", output->path);
	if (stat(output->path, &st) == 0 && !S_ISREG(st.st_mode))
		return tool_error(output->name, TOOL_FAILED, "%s: is there and no regular file; choose another name", output->path);
	output->fd = open(output->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (output->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		output->fd = open(output->partial_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
		output->named = output->fd >= 0;
	}
	return output->fd < 0 ? fail(output, "cannot be made") : 0;
}

int tool_output_open(const char *name, const char *path, struct tool_output **output_out)
{
	struct tool_output *output = calloc(1, sizeof(*output));
	int code;

	if (!output)
		return tool_error(name, TOOL_FAILED, "no memory for the output");
	*output = (struct tool_output){ .name = name, .path = path, .fd = -1 };
	code = make_paths(output);
	if (code == 0)
		code = open_file(output);
	if (code) {
		tool_output_close(output);
		return code;
	}
	*output_out = output;
	return 0;
}

static int write_all(const struct tool_output *output, const void *data, uint64_t bytes, uint64_t offset)
{
	const char *from = data;

	while (bytes > 0) {
		const ssize_t done = pwrite(output->fd, from, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, (off_t)offset);

		if (done < 0 && errno == EINTR && !tool_canceled())
			continue;
		if (done < 0)
			return fail(output, "cannot be written");
		if (tool_canceled())
			return tool_error(output->name, TOOL_FAILED, "canceled while %s was written", output->path);
		from += done;
		bytes -= (uint64_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

/* Format version 1.0, padded with spaces to the data. */
static int write_header(const struct tool_output *output, enum rung_dtype dtype, uint64_t count)
{
#define DESCR(code, name, bytes, descr) [code] = descr,
	static const char *const descrs[] = { RUNG_DTYPE_LIST(DESCR) };
#undef DESCR
	const unsigned length = DATA_OFFSET - 10;
	char head[DATA_OFFSET], text[128];

	snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }", descrs[dtype],
		 (unsigned long long)count);
	memset(head, ' ', sizeof(head));
	memcpy(head, "\x93NUMPY\x01\x00", 8);
	head[8] = (char)(length & 0xff);
	head[9] = (char)(length >> 8);
	memcpy(head + 10, text, strlen(text));
	head[DATA_OFFSET - 1] = '\n';
	return write_all(output, head, sizeof(head), 0);
}

/* An open file by its descriptor: linkat() with AT_EMPTY_PATH would take a privilege. */
static int give_name(struct tool_output *output)
{
	char fd_path[40];

	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", output->fd);
	if (!output->named && linkat(AT_FDCWD, fd_path, AT_FDCWD, output->partial_path, AT_SYMLINK_FOLLOW) < 0)
		return fail(output, "cannot be given its name");
	output->named = 1;
	if (rename(output->partial_path, output->path) < 0)
		return fail(output, "cannot be given its name");
	output->named = 0;
	return 0;
}

static int sync_folder(const struct tool_output *output)
{
	const int fd = open(output->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
	const int code = synced ? 0 : fail(output, "is there, but its folder cannot be synced to the device");

	if (fd >= 0)
		close(fd);
	return code;
}

int tool_output_write(struct tool_output *output, enum rung_dtype dtype, uint64_t count, const void *data)
{
	int code = write_header(output, dtype, count);

	if (code == 0)
		code = write_all(output, data, count * rung_dtype_bytes(dtype), DATA_OFFSET);
	if (code == 0 && fsync(output->fd) < 0)
		code = fail(output, "cannot be synced to the device");
	if (code == 0)
		code = give_name(output);
	return code ? code : sync_folder(output);
}

void tool_output_close(struct tool_output *output)
{
	if (!output)
		return;
	if (output->fd >= 0)
		close(output->fd);
	if (output->named)
		unlink(output->partial_path);
	free(output->dir);
	free(output->partial_path);
	free(output);
}
