/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear whole or not at all: written beside their place, synced, renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out_file.h"
#include "tool.h"

static int refuse(const char *name, const char *path, int err)
{
	return tool_error(name, TOOL_FAILED, "%s cannot be written: %s", path, strerror(err));
}

int tool_out_open(const char *name, const char *path, struct tool_out *out)
{
	struct stat found;
	int fd, err;

	*out = (struct tool_out){ .path = path };
	if (!path)
		return TOOL_DONE;
	if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
		return refuse(name, path, EISDIR);
	/* a device or a pipe stays what it is */
	if (stat(path, &found) != 0 || S_ISREG(found.st_mode)) {
		if (asprintf(&out->partial, "%s.%ld.partial", path, (long)getpid()) < 0) {
			out->partial = NULL;
			return refuse(name, path, ENOMEM);
		}
	}
	fd = out->partial ? open(out->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : open(path, O_WRONLY | O_CLOEXEC);
	err = errno;
	if (fd >= 0) {
		out->file = fdopen(fd, "w");
		if (out->file)
			return TOOL_DONE;
		err = errno;
		close(fd);
		if (out->partial)
			unlink(out->partial);
	}
	free(out->partial);
	out->partial = NULL;
	return refuse(name, path, err);
}

int tool_out_commit(const char *name, struct tool_out *out)
{
	int err = 0;

	if (!out->file)
		return TOOL_DONE;
	errno = EIO;
	if (fflush(out->file) != 0 || ferror(out->file) || (out->partial && fsync(fileno(out->file)) != 0))
		err = errno;
	if (fclose(out->file) != 0 && err == 0)
		err = errno;
	out->file = NULL;
	if (err == 0 && out->partial && rename(out->partial, out->path) != 0)
		err = errno;
	if (err && out->partial)
		unlink(out->partial);
	free(out->partial);
	out->partial = NULL;
	return err ? refuse(name, out->path, err) : TOOL_DONE;
}

void tool_out_abandon(struct tool_out *out)
{
	if (!out->file)
		return;
	fclose(out->file);
	if (out->partial)
		unlink(out->partial);
	free(out->partial);
	*out = (struct tool_out){ 0 };
}
