/* SPDX-License-Identifier: Apache-2.0 */
/* Where a store is shared: the folder, the lock and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/share.h"

#define BACKLOG         128
#define LOCK_TRIES_MAX  100u /* each lost to a holder that removed the file while we opened it */
#define LOCK_NAME_BYTES 128u /* a socket's name has at most 107 */

int rung__share_address(const char *path, struct sockaddr_un *address_out)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (!path[0] || strlen(path) >= sizeof(address.sun_path))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: a socket's path has 1 to %zu bytes, this one %zu: give a shorter one",
			path, sizeof(address.sun_path) - 1, strlen(path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	*address_out = address;
	return 0;
}

bool rung__share_peer_is_us(int fd, unsigned *uid_out)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;

	*uid_out = (unsigned)peer.uid;
	return known && peer.uid == geteuid();
}

static int check_folder(const char *dir, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", dir);
	if (st.st_uid != geteuid())
		return rung__fail(RUNG_E_INVAL,
		                  "%s: belongs to user %u, not to this user (%u); share in a "
		                  "folder of this user",
		                  dir, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: has mode %03o, which lets other users in: chmod 700 it, or "
		                  "name a folder that is not "
		                  "there yet",
		                  dir, (unsigned)st.st_mode & 0777u);
	return 0;
}

static int open_folder(const char *dir, int *fd_out)
{
	int fd, rc;

	if (mkdir(dir, S_IRWXU) < 0 && errno != EEXIST)
		return rung__fail_errno(errno, "%s: making the folder to share in", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: opening the folder to share in", dir);
	rc = check_folder(dir, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*fd_out = fd;
	return 0;
}

static void lock_name(const struct rung__place *place, char name[LOCK_NAME_BYTES])
{
	size_t len = strlen(place->name);

	memcpy(name, place->name, len);
	memcpy(name + len, ".lock", sizeof(".lock"));
}

static bool same_file(int fd, int dir_fd, const char *name)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* A holder removes the file before it lets go: what we locked counts only while the name still
 * leads to it. */
static int take_lock(struct rung__place *place)
{
	char name[LOCK_NAME_BYTES];

	lock_name(place, name);
	for (unsigned tries = 0; tries < LOCK_TRIES_MAX; tries++) {
		int fd = openat(place->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		                S_IRUSR | S_IWUSR);

		if (fd < 0)
			return rung__fail_errno(errno, "%s.lock: opening", place->path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			int err = errno;

			close(fd);
			if (err != EWOULDBLOCK)
				return rung__fail_errno(err, "%s.lock: locking", place->path);
			break;
		}
		if (same_file(fd, place->dir_fd, name)) {
			place->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return rung__fail(RUNG_E_BUSY,
	                  "%s: another process, or a child forked from one, shares a store there: "
	                  "attach to it, or "
	                  "give another path",
	                  place->path);
}

int rung__place_take(const char *path, struct rung__place *place_out)
{
	struct rung__place place = { .dir_fd = -1, .lock_fd = -1, .listen_fd = -1 };
	struct sockaddr_un address;
	char dir[sizeof(address.sun_path)] = ".";
	const char *slash;
	int rc = rung__share_address(path, &address);

	if (rc < 0)
		return rc;
	slash = strrchr(path, '/');
	if (slash) {
		size_t len = slash == path ? 1 : (size_t)(slash - path);

		memcpy(dir, path, len);
		dir[len] = 0;
	}
	place.path = rung__strdup(path);
	if (!place.path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", path);
	place.name = slash ? place.path + (slash - path) + 1 : place.path;
	if (place.name[0])
		rc = open_folder(dir, &place.dir_fd);
	else
		rc = rung__fail(RUNG_E_INVAL, "%s: names a folder: give the path of a socket in it",
		                path);
	if (rc == 0)
		rc = take_lock(&place);
	if (rc < 0) {
		rung__place_leave(&place);
		return rc;
	}
	*place_out = place;
	return 0;
}

/* While we hold the lock, no process answers on the old socket. Only a socket is removed: another
 * file of that name may be user data. */
static int remove_stale(const struct rung__place *place)
{
	struct stat st;

	if (fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : rung__fail_errno(errno, "%s", place->path);
	if (!S_ISSOCK(st.st_mode))
		return rung__fail(RUNG_E_EXIST, "%s: is there and no socket: give another path",
		                  place->path);
	if (unlinkat(place->dir_fd, place->name, 0) < 0)
		return rung__fail_errno(errno, "%s: removing the socket of a process that is gone",
		                        place->path);
	return 0;
}

int rung__place_listen(struct rung__place *place)
{
	struct sockaddr_un address;
	int fd, rc = rung__share_address(place->path, &address);

	if (rc == 0)
		rc = remove_stale(place);
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: making a socket", place->path);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		rc = rung__fail_errno(errno, "%s: binding the socket", place->path);
		close(fd);
		return rc;
	}
	place->listen_fd = fd; /* from here on the name is ours to remove */
	if (listen(fd, BACKLOG) < 0)
		return rung__fail_errno(errno, "%s: listening", place->path);
	return 0;
}

void rung__place_leave(struct rung__place *place)
{
	char name[LOCK_NAME_BYTES];

	if (place->listen_fd >= 0) {
		unlinkat(place->dir_fd, place->name, 0);
		close(place->listen_fd);
	}
	if (place->lock_fd >= 0) {
		lock_name(place, name);
		unlinkat(place->dir_fd, name, 0);
		close(place->lock_fd);
	}
	if (place->dir_fd >= 0)
		close(place->dir_fd);
	rung__free(place->path);
}
