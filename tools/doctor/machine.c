/* SPDX-License-Identifier: Apache-2.0 */
/* What rung doctor checks about the machine and about the limits of this process. */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "rung_config.h"
#include "tool.h"
#if RUNG_HAVE_BLAS
#include "train/blas.h"
#endif

#define MEMLOCK_BYTES 8388608u /* the kernel's default since 5.16, enough for rings and slots */
#define CAP_IPC_LOCK  14       /* with this capability the limit does not apply */

static const char *const disabled_path = "/proc/sys/kernel/io_uring_disabled";
static const char *const thp_path = "/sys/kernel/mm/transparent_hugepage/enabled";

/* The first line of a file, or "". */
static void first_line(const char *path, char *line, int bytes)
{
	FILE *file = fopen(path, "re");

	line[0] = 0;
	if (file && fgets(line, bytes, file))
		line[strcspn(line, "\n")] = 0;
	if (file)
		fclose(file);
}

static void check_kernel(struct doctor *doctor)
{
	struct utsname name;
	int major = 0, minor = 0;

	if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		doctor_add(doctor, "kernel", DOCTOR_ABSENT, "", "of an unknown version");
	else if (major < 5 || (major == 5 && minor < 11))
		doctor_add(doctor, "kernel", DOCTOR_MISSING, "use Linux 5.11 or later",
		           "Linux %s, too old for reads by io_uring", name.release);
	else
		doctor_add(doctor, "kernel", DOCTOR_OK, "", "Linux %s", name.release);
}

/* The cure for a refused ring: the kernel's setting decides before a container's filter. */
static void explain_refusal(struct doctor *doctor, int err)
{
	char setting[16];

	first_line(disabled_path, setting, sizeof(setting));
	if (err == ENOSYS)
		doctor_add(doctor, "io_uring", DOCTOR_MISSING,
		           "use a kernel with io_uring, or a container that permits it",
		           "not in this kernel, or hidden by a container");
	else if (err == ENOMEM)
		doctor_add(doctor, "io_uring", DOCTOR_MISSING, "raise ulimit -l",
		           "no memory may be locked for a ring");
	else if (setting[0] && setting[0] != '0')
		doctor_add(doctor, "io_uring", DOCTOR_MISSING,
		           "as root: sysctl kernel.io_uring_disabled=0",
		           "refused: sysctl kernel.io_uring_disabled is %s", setting);
	else
		doctor_add(doctor, "io_uring", DOCTOR_MISSING,
		           "permit it in the seccomp profile (docker: --security-opt seccomp=FILE)",
		           "refused by a container or sandbox: %s", strerror(err));
}

static void check_io_uring(struct doctor *doctor)
{
	struct io_uring_params params = { 0 };
	const char *name, *why;
	int built_in = 0;
	long fd;

	for (unsigned i = 0; (name = rung_feature(i, &built_in, &why)) != NULL; i++) {
		if (strcmp(name, "io_uring") == 0)
			break;
	}
	if (!built_in) {
		doctor_add(doctor, "io_uring", DOCTOR_MISSING,
		           "install liburing and build rung again", "not in this build: %s",
		           name ? why : "unknown");
		return;
	}
	fd = syscall(SYS_io_uring_setup, 4, &params);
	if (fd < 0) {
		explain_refusal(doctor, errno);
		return;
	}
	close((int)fd);
	doctor_add(doctor, "io_uring", DOCTOR_OK, "", "permitted, %s", why);
}

static int may_lock_all(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	unsigned long long capabilities = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %llx", &capabilities) == 1)
			break;
	}
	if (file)
		fclose(file);
	return (capabilities >> CAP_IPC_LOCK) & 1;
}

static void check_memlock(struct doctor *doctor)
{
	struct rlimit limit = { 0, 0 };
	char text[TOOL_TEXT_BYTES];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	tool_bytes_text(text, (double)limit.rlim_cur);
	if (limit.rlim_cur == RLIM_INFINITY || may_lock_all())
		doctor_add(doctor, "memlock", DOCTOR_OK, "", "no limit for locked memory");
	else if (limit.rlim_cur < MEMLOCK_BYTES)
		doctor_add(doctor, "memlock", DOCTOR_MISSING,
		           "ulimit -l unlimited (systemd: LimitMEMLOCK=, docker: --ulimit memlock)",
		           "at most %s may be locked, below 8 MiB", text);
	else
		doctor_add(doctor, "memlock", DOCTOR_OK, "", "%s may be locked", text);
}

static void check_huge_pages(struct doctor *doctor)
{
	char line[64];

	first_line(thp_path, line, sizeof(line));
	if (!line[0] || strstr(line, "[never]"))
		doctor_add(doctor, "huge pages", DOCTOR_ABSENT,
		           line[0] ? "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/"
		                     "enabled"
		                   : "",
		           "%s", line[0] ? "transparent huge pages are off" : "not in this kernel");
	else
		doctor_add(doctor, "huge pages", DOCTOR_OK, "", "transparent: %s", line);
}

static void check_numa(struct doctor *doctor, const struct rung_topology *topology)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	const int node = tool_node_to_probe(topology);

	rung_topology_info(topology, &info);
	if (info.node_count < 2)
		doctor_add(doctor, "NUMA", DOCTOR_OK, "", "1 node, so memory needs no placement");
	else if (node < 0 || rung_numa_probe_policy((uint32_t)node, &policy) < 0)
		doctor_add(doctor, "NUMA", DOCTOR_ABSENT, "",
		           "%u nodes; placing memory could not be tried", info.node_count);
	else if (!policy.can_bind)
		doctor_add(doctor, "NUMA", DOCTOR_MISSING,
		           "permit mbind and set_mempolicy (docker: --cap-add SYS_NICE)",
		           "%u nodes, but memory cannot be placed: %s", info.node_count,
		           policy.bind_why);
	else
		doctor_add(doctor, "NUMA", DOCTOR_OK, "", "%u nodes, memory can be placed on them",
		           info.node_count);
}

static int has_nvidia(const struct rung_topology *topology)
{
	const struct rung_topology_device *device;

	for (size_t i = 0; (device = rung_topology_device(topology, i)) != NULL; i++) {
		if (device->kind == RUNG_TOPOLOGY_GPU && device->vendor &&
		    strcmp(device->vendor, "nvidia") == 0)
			return 1;
	}
	return 0;
}

static void check_gpu(struct doctor *doctor, const struct rung_topology *topology)
{
	struct rung_gpu_info gpu = { .size = sizeof(gpu) };
	const int rc = rung_gpu_info(0, &gpu), present = has_nvidia(topology);
	char bytes[TOOL_TEXT_BYTES];

	if (rc == 0)
		doctor_add(doctor, "CUDA", DOCTOR_OK, "", "%s with %s", gpu.name,
		           tool_bytes_text(bytes, (double)gpu.total_bytes));
	else if (!present)
		doctor_add(doctor, "CUDA", DOCTOR_ABSENT, "", "no NVIDIA GPU was found");
	else if (rc == RUNG_E_NOSUP)
		doctor_add(doctor, "CUDA", DOCTOR_MISSING,
		           "build rung with CUDA (cmake -DRUNG_CUDA=ON)", "not in this build");
	else
		doctor_add(doctor, "CUDA", DOCTOR_MISSING,
		           "install or update NVIDIA's driver, and give the container the GPU",
		           "%s", rung_last_error());
}

/* Only rung train needs it, so that a machine without it lacks nothing. */
static void check_blas(struct doctor *doctor)
{
#if RUNG_HAVE_BLAS
	struct rlimit limit = { 0, 0 };
	const char *why;

	getrlimit(RLIMIT_AS, &limit);
	if (limit.rlim_cur != RLIM_INFINITY) { /* loading could wait for ever: train/blas.h */
		doctor_add(doctor, "OpenBLAS", DOCTOR_ABSENT, "ulimit -v unlimited",
		           "not tried for rung train, because address space is limited");
		return;
	}
	why = train_blas_load();
	if (why)
		doctor_add(doctor, "OpenBLAS", DOCTOR_ABSENT,
		           "for rung train: install OpenBLAS (Debian: libopenblas0)", "%s", why);
	else
		doctor_add(doctor, "OpenBLAS", DOCTOR_OK, "", RUNG_BLAS_LIBRARY ", for rung train");
#else
	doctor_add(doctor, "OpenBLAS", DOCTOR_ABSENT,
	           "for rung train: install OpenBLAS and build rung again", "not in this build: %s",
	           RUNG_WHY_BLAS);
#endif
}

void doctor_check_machine(struct doctor *doctor)
{
	struct rung_topology *topology;

	check_kernel(doctor);
	check_io_uring(doctor);
	check_memlock(doctor);
	check_huge_pages(doctor);
	check_blas(doctor);
	if (rung_topology_load(NULL, &topology) < 0) {
		doctor_add(doctor, "NUMA", DOCTOR_ABSENT, "", "unknown: %s", rung_last_error());
		return;
	}
	check_numa(doctor, topology);
	check_gpu(doctor, topology);
	rung_topology_destroy(topology);
}
