/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a store is shared: the folder, the lock and the socket.
 *
 * The creator acquires the lock before it loads anything, and listens when the store is complete.
 * Both names are removed when it closes. After a crash they stay: the kernel has released the lock,
 * so the next creator acquires it and replaces the socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/share.h"

#define BACKLOG 128 /* connections that can wait for the thread */
/* number of attempts; an attempt fails if a holder removes the file while it is being opened */
#define LOCK_TRIES_MAX  100u
#define LOCK_NAME_BYTES 128u /* a socket's name has at most 107 bytes */

int rung__share_address(const char *path, struct sockaddr_un *address_out)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (!path[0] || strlen(path) >= sizeof(address.sun_path))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: a socket path has 1 to %zu bytes, but this one has %zu; "
		                  "give another path",
		                  path, sizeof(address.sun_path) - 1, strlen(path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	*address_out = address;
	return 0;
}

bool rung__share_peer_is_us(int fd, unsigned *uid_out, uint32_t *pid_out)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;

	*uid_out = (unsigned)peer.uid;
	if (pid_out)
		*pid_out = (uint32_t)peer.pid;
	return known && peer.uid == geteuid();
}

/* Check that only the owner can enter the folder, because any process that can connect gets
 * descriptors of all data. */
static int check_folder(const char *dir, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", dir);
	if (st.st_uid != geteuid())
		return rung__fail(RUNG_E_INVAL,
		                  "%s: this folder belongs to user %u, but the process runs as "
		                  "user %u; share in a folder that the process's user owns",
		                  dir, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: has mode %03o, which lets other users in; chmod 700 it, or "
		                  "name a folder that does not exist yet",
		                  dir, (unsigned)st.st_mode & 0777u);
	return 0;
}

/* Create the folder if it is missing, and open it. It is checked through the descriptor, so that it
 * cannot be replaced after the check. */
static int open_folder(const char *dir, int *fd_out)
{
	int fd, rc;

	if (mkdir(dir, S_IRWXU) < 0 && errno != EEXIST)
		return rung__fail_errno(errno, "%s: cannot create the socket's folder", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot open the socket's folder", dir);
	rc = check_folder(dir, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*fd_out = fd;
	return 0;
}

static void lock_name(const struct rung__endpoint *endpoint, char name[LOCK_NAME_BYTES])
{
	size_t len = strlen(endpoint->name);

	memcpy(name, endpoint->name, len);
	memcpy(name + len, ".lock", sizeof(".lock"));
}

/* Whether the name still refers to the opened file. */
static bool same_file(int fd, int dir_fd, const char *name)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* A holder removes the file before it releases the lock. A lock on a removed file excludes no other
 * process, so a lock is valid only if the name still refers to the locked file. */
static int acquire_lock(struct rung__endpoint *endpoint)
{
	char name[LOCK_NAME_BYTES];

	lock_name(endpoint, name);
	for (unsigned tries = 0; tries < LOCK_TRIES_MAX; tries++) {
		int fd = openat(endpoint->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		                S_IRUSR | S_IWUSR);

		if (fd < 0)
			return rung__fail_errno(errno, "%s.lock: cannot be opened", endpoint->path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			int err = errno;

			close(fd);
			if (err != EWOULDBLOCK)
				return rung__fail_errno(err, "%s.lock: cannot be locked",
				                        endpoint->path);
			break; /* another process has it */
		}
		if (same_file(fd, endpoint->dir_fd, name)) {
			endpoint->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return rung__fail(RUNG_E_BUSY,
	                  "%s: another process, or a child forked from it, already shares a store "
	                  "at this path; attach to it, or give another path",
	                  endpoint->path);
}

int rung__endpoint_acquire(const char *path, struct rung__endpoint *place_out)
{
	struct rung__endpoint endpoint = { .dir_fd = -1, .lock_fd = -1, .listen_fd = -1 };
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
	endpoint.path = rung__strdup(path);
	if (!endpoint.path)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", path);
	endpoint.name = slash ? endpoint.path + (slash - path) + 1 : endpoint.path;
	if (endpoint.name[0])
		rc = open_folder(dir, &endpoint.dir_fd);
	else
		rc = rung__fail(RUNG_E_INVAL, "%s: names a folder; give the path of a socket in it",
		                path);
	if (rc == 0)
		rc = acquire_lock(&endpoint);
	if (rc < 0) {
		rung__endpoint_release(&endpoint);
		return rc;
	}
	*place_out = endpoint;
	return 0;
}

/* While we hold the lock, no process answers on the old socket. Only a socket is removed: another
 * file of that name could be the user's data. */
static int remove_stale(const struct rung__endpoint *endpoint)
{
	struct stat st;

	if (fstatat(endpoint->dir_fd, endpoint->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : rung__fail_errno(errno, "%s", endpoint->path);
	if (!S_ISSOCK(st.st_mode))
		return rung__fail(RUNG_E_EXIST, "%s: exists and is not a socket; give another path",
		                  endpoint->path);
	if (unlinkat(endpoint->dir_fd, endpoint->name, 0) < 0)
		return rung__fail_errno(errno,
		                        "%s: cannot remove the socket of a process that has ended",
		                        endpoint->path);
	return 0;
}

int rung__endpoint_listen(struct rung__endpoint *endpoint)
{
	struct sockaddr_un address;
	int fd, rc = rung__share_address(endpoint->path, &address);

	if (rc == 0)
		rc = remove_stale(endpoint);
	if (rc < 0)
		return rc;
	/* SOCK_SEQPACKET keeps the message in one piece, with its descriptors */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot create a socket", endpoint->path);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		rc = rung__fail_errno(errno, "%s: cannot bind the socket", endpoint->path);
		close(fd);
		return rc;
	}
	/* once listen_fd is set, rung__endpoint_release() removes the name */
	endpoint->listen_fd = fd;
	if (listen(fd, BACKLOG) < 0)
		return rung__fail_errno(errno, "%s: cannot listen on the socket", endpoint->path);
	return 0;
}

void rung__endpoint_release(struct rung__endpoint *endpoint)
{
	char name[LOCK_NAME_BYTES];

	if (endpoint->listen_fd >= 0) {
		unlinkat(endpoint->dir_fd, endpoint->name, 0);
		close(endpoint->listen_fd);
	}
	/* removed after the socket, because the lock protects the socket's name */
	if (endpoint->lock_fd >= 0) {
		lock_name(endpoint, name);
		unlinkat(endpoint->dir_fd, name, 0);
		close(endpoint->lock_fd);
	}
	if (endpoint->dir_fd >= 0)
		close(endpoint->dir_fd);
	rung__free(endpoint->path);
}
