/* SPDX-License-Identifier: Apache-2.0 */
/* Stores are shared among processes of one user. Only root can become another user to test that. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share_child.h"
#include "share_fixture.h"

static struct share_fixture s;
static struct rung_store *creator;

/* Make the socket reachable for every user. */
static void open_for_everybody(void)
{
	if (geteuid() != 0)
		cr_skip_test("needs root, to become another user");
	share_fixture_open(&s);
	creator = share_fixture_create(&s);
	cr_assert_eq(chmod(s.base.parent, 0755), 0);
	cr_assert_eq(chmod(s.folder, 0777), 0);
	cr_assert_eq(chmod(s.path, 0777), 0);
}

static void close_store(void)
{
	cr_assert_eq(rung_store_close(creator), 0);
	share_fixture_close(&s);
}

Test(share_users, another_users_store_is_refused_by_the_attacher)
{
	struct share_child child;

	open_for_everybody();
	cr_assert_eq(share_child_start(&child, "attach-as-other-user", s.path, s.base.dir),
	             RUNG_E_INVAL, "%s", child.line);
	cr_assert(strstr(child.line, "shared by user 0, but this process runs as user 65534"), "%s",
	          child.line);
	cr_assert_eq(share_child_end(&child), 0);
	close_store();
}

Test(share_users, a_store_that_another_user_pretends_to_share_is_refused)
{
	struct share_message good;
	struct rung_store *store;
	char path[450], byte;
	int ready[2], status;
	pid_t pid;

	open_for_everybody();
	cr_assert_eq(share_message_receive(s.path, &good), (ssize_t)sizeof(good.offer));
	snprintf(path, sizeof(path), "%s/nobodys", s.folder);
	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		int listen_fd;

		if (setgid(SHARE_NOBODY) < 0 || setuid(SHARE_NOBODY) < 0)
			_exit(1);
		listen_fd = share_impostor_listen(path, 4);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		share_impostor_answer(listen_fd, &good);
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	cr_assert_eq(rung_store_attach(path, NULL, &store), RUNG_E_INVAL);
	cr_assert(
		strstr(rung_last_error(), "shared by user 65534, but this process runs as user 0"),
		"%s", rung_last_error());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	close(ready[0]);
	close(ready[1]);
	share_message_close(&good);
	close_store();
}

Test(share_users, the_creator_sends_nothing_to_another_user)
{
	struct share_message message;
	int status;
	pid_t pid;

	open_for_everybody();
	pid = fork();
	if (pid == 0) {
		if (setgid(SHARE_NOBODY) < 0 || setuid(SHARE_NOBODY) < 0)
			_exit(1);
		_exit(share_message_receive(s.path, &message) == 0 && message.fd_count == 0 ? 0
		                                                                            : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	close_store();
}
